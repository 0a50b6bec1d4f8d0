"""A plugin of pytest: shows the first failure when it happens, and the run goes on. All are shown at its end."""

import pytest


class FirstFailure:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_shown = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._is_shown:
            self._is_shown = True
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            terminal.write_sep("_", f"first failure: {report.nodeid}")
            terminal.write_line(report.longreprtext)
            terminal.flush()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of xdist, whose reports reach the process that shows them
        config.pluginmanager.register(FirstFailure(config))
