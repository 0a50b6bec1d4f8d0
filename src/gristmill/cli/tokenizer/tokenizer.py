"""gristmill tokenizer: the commands that train and use a tokenizer."""

import typer

from gristmill.cli.shared.usage import Commands
from gristmill.cli.tokenizer import pin as tokenizer_pin
from gristmill.cli.tokenizer import show as tokenizer_show
from gristmill.cli.tokenizer import train as tokenizer_train

app = typer.Typer(
    help="Train and use a tokenizer.",
    cls=Commands,
    rich_markup_mode=None,
)
app.command(name="train", epilog=tokenizer_train.EXAMPLE)(tokenizer_train.command)
app.command(name="pin", epilog=tokenizer_pin.EXAMPLE)(tokenizer_pin.command)
app.command(name="show", epilog=tokenizer_show.EXAMPLE)(tokenizer_show.command)
