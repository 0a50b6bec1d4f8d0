"""Sentences in eight languages, our own, for pages that an English recipe has to leave out."""

import re
from random import Random

from demo.articles import Article, Block

_TEXTS = {
    "de": """Der kleine Bahnhof von {place} liegt am Rand der Stadt, und nur {n} Züge halten dort an einem
Werktag. Wer früh genug aufsteht, sieht den Nebel über den Feldern und hört die ersten Vögel in den Hecken.
{name} führt seit vielen Jahren die Buchhandlung neben der Kirche und kennt fast jeden Kunden beim Namen. Im Herbst
kommen die Schulkinder mit ihren Listen und suchen zwischen den Regalen nach Atlanten und Wörterbüchern. Am
Samstag bauen die Händler ihren Markt auf, und es riecht nach frischem Brot, nach Käse und nach nassem Laub. Vor
{n} Jahren wurde die alte Brücke gesperrt, weil das Hochwasser einen Pfeiler unterspült hatte. Seitdem fährt eine
Fähre über den Fluss, die bei starkem Wind allerdings am Ufer bleiben muss. Die Leute haben sich daran gewöhnt und
erzählen den Besuchern gern, wie man früher über die Eisdecke gegangen ist. In der Werkstatt von {name} stehen alte
Uhren, die niemand mehr abgeholt hat und die trotzdem jeden Abend aufgezogen werden. Abends sitzen die Nachbarn auf
der Bank vor dem Rathaus und reden über das Wetter, die Ernte und die neuesten Gerüchte. Wenn es dunkel wird, gehen
die Lampen an, und man hört nur noch das Wasser unter den Weiden. Der Gemeinderat will im nächsten Jahr einen Radweg
nach {place} bauen, doch über die Kosten wird noch gestritten.""",
    "fr": """La petite gare de {place} se trouve au bord de la ville, et seulement {n} trains s'y arrêtent chaque
jour. Ceux qui se lèvent assez tôt voient la brume sur les champs et entendent les premiers oiseaux dans les haies.
Depuis de longues années, {name} tient la librairie près de l'église et connaît presque tous ses clients par leur
nom. En automne, les écoliers arrivent avec leurs listes et cherchent des atlas et des dictionnaires entre les
rayons. Le samedi, les marchands installent leurs étals, et la place sent le pain frais, le fromage et les feuilles
mouillées. Il y a {n} ans, on a fermé le vieux pont parce que la crue avait abîmé l'une de ses piles. Depuis, un bac
traverse la rivière, mais il doit rester à quai lorsque le vent souffle trop fort. Les habitants s'y sont habitués
et racontent volontiers comment leurs grands-parents passaient à pied sur la glace. Dans l'atelier de {name}, il y a
des horloges que personne n'est venu reprendre et que l'on remonte pourtant chaque soir. Le soir venu, les voisins
s'assoient sur le banc devant la mairie et parlent du temps, des récoltes et des dernières rumeurs. Quand la nuit
tombe, les lampes s'allument et l'on n'entend plus que l'eau sous les saules. Le conseil municipal veut construire
l'an prochain une piste cyclable vers {place}, mais on discute encore du prix.""",
    "es": """La pequeña estación de {place} está a las afueras de la ciudad, y solo {n} trenes paran allí cada día.
Quien madruga lo bastante ve la niebla sobre los campos y oye los primeros pájaros entre los setos. Desde hace muchos
años {name} lleva la librería que está junto a la iglesia y conoce a casi todos los clientes por su nombre. En otoño
llegan los escolares con sus listas y buscan atlas y diccionarios entre las estanterías. Los sábados los vendedores
montan sus puestos, y la plaza huele a pan recién hecho, a queso y a hojas mojadas. Hace {n} años cerraron el puente
viejo porque la crecida había dañado uno de los pilares. Desde entonces una barca cruza el río, aunque cuando sopla
mucho viento tiene que quedarse en la orilla. La gente se ha acostumbrado y cuenta con gusto a los visitantes cómo
antes se pasaba caminando sobre el hielo. En el taller de {name} hay relojes que nadie ha venido a recoger y a los
que, sin embargo, se les da cuerda todas las noches. Por la tarde los vecinos se sientan en el banco del ayuntamiento
y hablan del tiempo, de la cosecha y de los últimos rumores. Cuando oscurece se encienden las farolas y solo se oye
el agua bajo los sauces. El ayuntamiento quiere construir el próximo año un carril para bicicletas hasta {place},
pero todavía se discute el precio.""",
    "it": """La piccola stazione di {place} si trova ai margini della città, e soltanto {n} treni vi si fermano ogni
giorno. Chi si alza abbastanza presto vede la nebbia sopra i campi e sente i primi uccelli tra le siepi. Da molti
anni {name} gestisce la libreria accanto alla chiesa e conosce per nome quasi tutti i clienti. In autunno arrivano
gli scolari con le loro liste e cercano atlanti e dizionari tra gli scaffali. Il sabato i venditori montano le
bancarelle, e la piazza profuma di pane fresco, di formaggio e di foglie bagnate. Circa {n} anni fa il vecchio ponte
fu chiuso perché la piena aveva rovinato uno dei piloni. Da allora un traghetto attraversa il fiume, ma quando il
vento è troppo forte deve restare a riva. La gente ci si è abituata e racconta volentieri ai visitatori come una
volta si camminava sul ghiaccio. Nella bottega di {name} ci sono orologi che nessuno è più venuto a ritirare e che
tuttavia vengono caricati ogni sera. Verso sera i vicini si siedono sulla panchina davanti al municipio e parlano
del tempo, del raccolto e delle ultime voci. Quando fa buio si accendono i lampioni e si sente soltanto l'acqua sotto
i salici. Il consiglio comunale vuole costruire l'anno prossimo una pista ciclabile fino a {place}, ma si discute
ancora sui costi.""",
    "pt": """A pequena estação de {place} fica na beira da cidade, e apenas {n} comboios param ali em cada dia útil.
Quem se levanta bastante cedo vê a névoa sobre os campos e ouve os primeiros pássaros nas sebes. Há muitos anos que
{name} cuida da livraria ao lado da igreja e conhece quase todos os clientes pelo nome. No outono chegam os alunos
com as suas listas e procuram atlas e dicionários entre as estantes. Aos sábados os vendedores montam as bancas, e a
praça cheira a pão fresco, a queijo e a folhas molhadas. Há {n} anos a velha ponte foi fechada porque a cheia tinha
estragado um dos pilares. Desde então uma barca atravessa o rio, mas quando o vento é muito forte tem de ficar na
margem. As pessoas habituaram-se e gostam de contar aos visitantes como antigamente se caminhava sobre o gelo. Na
oficina de {name} há relógios que ninguém veio buscar e aos quais, mesmo assim, se dá corda todas as noites. Ao fim
da tarde os vizinhos sentam-se no banco em frente da câmara e falam do tempo, da colheita e dos últimos boatos.
Quando escurece acendem-se os candeeiros e só se ouve a água debaixo dos salgueiros. A câmara quer construir no
próximo ano uma ciclovia até {place}, mas ainda se discute quanto ela vai custar.""",
    "ru": """Маленькая станция {place} стоит на окраине города, и в будний день здесь останавливается только {n}
поездов. Тот, кто встаёт достаточно рано, видит туман над полями и слышит первых птиц в живых изгородях. Уже много
лет {name} держит книжную лавку рядом с церковью и почти каждого покупателя знает по имени. Осенью приходят
школьники со своими списками и ищут между полками атласы и словари. По субботам торговцы ставят палатки, и на площади
пахнет свежим хлебом, сыром и мокрыми листьями. Примерно {n} лет назад старый мост закрыли, потому что паводок размыл
одну из его опор. С тех пор через реку ходит паром, но при сильном ветре он остаётся у берега. Люди к этому привыкли
и охотно рассказывают гостям, как раньше зимой ходили прямо по льду. В мастерской, где работает {name}, стоят часы,
за которыми никто не вернулся, и всё же их заводят каждый вечер. По вечерам соседи сидят на скамейке перед ратушей и
говорят о погоде, об урожае и о последних слухах. Когда темнеет, зажигаются фонари, и слышно только воду под ивами. В
следующем году совет хочет построить велосипедную дорожку до станции {place}, но о цене всё ещё спорят.""",
    "ja": """{place}の小さな駅は町のはずれにあり、平日に止まる列車は{n}本だけです。
朝早く起きる人は、畑の上に広がる霧を眺め、生け垣で鳴く最初の鳥の声を聞くことができます。
{name}さんは教会の隣で長年本屋を営んでおり、ほとんどのお客さんの名前を覚えています。
秋になると子どもたちが一覧表を手にやって来て、棚の間で地図帳や辞書を探します。
土曜日には商人たちが市場を開き、広場には焼きたてのパンとチーズと濡れた落ち葉の匂いが漂います。
{n}年前に洪水で橋脚の一つが壊れたため、古い橋は通れなくなりました。
それ以来、渡し船が川を行き来していますが、風の強い日は岸から離れることができません。
住民はすっかり慣れてしまい、昔は氷の上を歩いて渡ったのだと訪問者に楽しそうに話します。
{name}さんの工房には、誰も取りに来ない時計が並んでいますが、それでも毎晩ねじが巻かれます。
夕方になると近所の人々が役場の前のベンチに座り、天気や収穫や新しいうわさについて語り合います。
暗くなると街灯がともり、柳の下を流れる水の音だけが聞こえてきます。
町議会は来年{place}まで自転車道を作りたいと考えていますが、費用についてはまだ議論が続いています。
冬の間は小学校の体育館で週に二回、古い写真や手紙を持ち寄って町の歴史を調べる集まりが開かれています。
去年の集まりには{n}人が参加し、その記録は一冊の薄い本にまとめられて図書館に置かれました。
駅前の食堂では、{name}さんが畑で育てた野菜を使った温かい汁物が、朝から晩まで人気を集めています。""",
    "zh": """{place}的小火车站位于城市的边缘，平日里每天只有{n}趟列车在那里停靠。
起得足够早的人可以看到田野上的薄雾，也能听到树篱里传来的第一声鸟鸣。
多年来，{name}一直在教堂旁边经营着一家书店，几乎叫得出每一位顾客的名字。
到了秋天，学生们拿着书单来到这里，在书架之间寻找地图册和各种词典。
每逢星期六，商贩们搭起摊位，广场上弥漫着新鲜面包、奶酪和湿树叶的气味。
大约{n}年以前，洪水冲坏了一个桥墩，因此那座古老的石桥被封闭了。
从那以后，人们乘坐渡船过河，不过刮大风的时候，渡船只能停靠在岸边。
居民们早已习惯了这种生活，还喜欢告诉来访的客人，从前大家是怎样在冰面上走过去的。
在{name}的作坊里摆放着许多没有人来取走的钟表，可是每天晚上仍然有人给它们上发条。
傍晚时分，邻居们坐在镇政府门前的长椅上，谈论天气、收成以及最近听到的各种传闻。
天黑以后，路灯一盏一盏地亮起来，只听得见柳树下面潺潺的流水声。
镇议会打算明年修一条通往{place}的自行车道，但是关于费用的问题大家还在争论不休。
冬天里，小学的体育馆每周举行两次聚会，人们带来旧照片和信件，一起整理这座小镇的历史。
去年一共有{n}个人参加了聚会，他们的记录后来被编成一本薄薄的小册子，存放在图书馆里。
车站对面的小饭馆里，{name}用自家菜园种的蔬菜煮成热汤，从清晨到夜晚一直很受欢迎。
河边的老磨坊已经不再磨面粉了，不过孩子们放学以后还是喜欢到那里去看水车慢慢转动。
春天一到，附近的山坡上开满了杏花，许多住在大城市里的人会专门坐车来这里拍照和散步。""",
}
LANGUAGES = tuple(_TEXTS)

_PLACES = {
    "ru": ["Ольховка", "Заречье", "Каменка", "Берёзово"],
    "ja": ["青葉台", "川崎原", "松ヶ丘", "北浜"],
    "zh": ["柳河镇", "青石岭", "东湖村", "白杨店"],
}
_NAMES = {
    "ru": ["Вера Лаптева", "Олег Дронов", "Нина Савич"],
    "ja": ["田村", "小野寺", "北川"],
    "zh": ["陈小梅", "刘建平", "周文"],
}


def foreign(lang: str, rng: Random, number: int) -> Article:
    """All sentences but one in a random order: at least 150 words, or 500 characters of Chinese or Japanese."""
    spaced = lang not in ("ja", "zh")
    text = _TEXTS[lang].replace("\n", " " if spaced else "")
    sentences = [s for s in re.split(r"(?<=\.) " if spaced else r"(?<=。)", text) if s]
    rng.shuffle(sentences)
    places = _PLACES.get(lang, ["Altmora", "Brenzo", "Calvessa", "Dornelle"])
    names = _NAMES.get(lang, ["Elena Brandt", "Marco Veil", "Sofia Lind"])
    filled = [s.format(place=rng.choice(places), name=rng.choice(names), n=rng.randint(5, 60)) for s in sentences[1:]]
    join = " " if spaced else ""
    blocks = tuple(Block("p", join.join(filled[i : i + 3])) for i in range(0, len(filled), 3))
    return Article(f"{lang}.story{number}", filled[-1].rstrip(".。")[:40], blocks)


def first_sentence(article: Article) -> str:
    return re.split(r"(?<=\.) |(?<=。)", article.blocks[0].text)[0]
