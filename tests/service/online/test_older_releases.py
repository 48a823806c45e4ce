"""What an older release has stored keeps its meaning: its specs, its snapshots and its logs."""

import base64
import zlib
from typing import Any, NamedTuple

import msgpack
import pytest
from tests.service.online.folds import fold

from manylabel_core.state import dump, load
from manylabel_service.online.spec.spec import ModelSpec
from manylabel_service.online.state.fold import LogEntry
from manylabel_service.online.state.log_entries import decode
from manylabel_service.online.state.model import OnlineModel

SECOND_VERSION = (
    r"c-rlo4{RIN9mj1a^iS5ZLfOWc)}=-p9h{<f@9y5+MXT?!F*@4)t2UQPq@;Jgcc~TsN&TlKbkQO-7#f>I6F^P7YBVqerK=cpXj@y`r0)I^{s@%~5My"
    r"+(4g_0)4OWCk_uk#vu^l^3E-oc3Cppje?)|>+-_OY>-@FX&$Zy!;^V}JUcjt1WxuM%{9Wl8P6O5SbhzWD~B_5AQC9j;vGmxdP?IRI3@AV$JeLHED%"
    r"Qw?!gCh|@t9?#AYuBr{<UOPLs3Skp!{(P571t5cV=-VrDT)t~&aHuvCyU01;K`8|Fz-D*N~56D&3N~xNAs7K%w{{);jF0uOUIsqGqfZ5%ZhD}khX("
    r"XTOzu^nXf{GA<?Gu8qLE>VNf|h)maNz9E?!b!L8P$SbKr(rM0@TL&s;I*NaPrCN9}%ZjkoQ+5@nsRglQiY0-Y{r_gFp+K*LQ+p?u(XhW6jZLJe+?-"
    r"`#?m0j@^cBLc%Mx8YW)>4)&4ISLjQ2yXHe@u&Ff4e^(G5m~Qi*&~m;nb!msWG)kid6M#2`!rRw{P>~l;&>-ZBU?<$s{I~9OE~`sjhG=g%cs%oAS4("
    r"5^2o%ixpkTkQNEYx@jQSPg-Lwl}^ymSUM76{1HvZk>Xvku|F1%VbZygPH1{K5>E9MnrscnjQCc6JKukF!R}M%*c0F8@9K(@;Tc*=>*}IojcTzzOPg"
    r"qI>-2{<;ZRR99qshDw|4pwHUtftA}?bD$bt+pmUt-3Iu<Zw1%cxYkrP8mkY!fD0!s$Xha`j3k#1<bE_V7EqGHAqQ7uIkS$b>r7QsfB8HvXew3;kn6"
    r"5EgZ;%TcT8HyRc78_-cd&rdRfziD%Z1rULI!r4;KfUXXC&Q_5JZ3lJ?IwwMB%*6%UbOb=4OUby4mtf4x6+QGyJ?4wuPJ?Ettx%)Y)omLy*Z^dbbz)"
    r"V$roGB&JU+kvIo|nX_8RU(%hgAtn45UCgg`5#o2;1w`c`t&Ap^Wr<E6Wzjh+fTHb1w?j^f#$4T^l3r-}R6@&f$lGJO9n`RQHtdurVeZ4gMuS7h_w&"
    r"W&_-d!zhAel!~so3&r!0=#0e<5G%OYjpVc)*B|YV;=X<}{9_!dj#)6i>${)8QCyqLK(1mgg&_64ocD=71P+q7YGGI3!gnrQ#_qGQG(W6|zF0QmOE1"
    r"t);|PTPC{J6UIb7yk#T0qW*G|5jmTNwL}aj+P30w_onjIzJi0L8_!e|A{!?_FmdM$T)swSQdPE%h%f?Yr9d$k^}bZON>C~hk*bJrkP+-@_29nRp)7"
    r"<|g2_}6g2hB8->zy3fQjKGv@E>d@KG%ZYj=~W1lFRH%%EDdM55&l{r#=h<^0_9_?)uYDd#!m0#Er>tDUz-yUMGnM!nZF`Q>$4@0(^nZpZ1XGw;GRz"
    r"heD-75z1rwSHZ(%NLw-ky@xX%^Ne_rWv4jJBL5Hk`NAkPuo%2$&9}*T!lI{YnQo<{r(QxE<^XR#o14jGl9vPaPXGx!&NzV51dC~YbbvqY5mP#E_+m"
    r"Q%3^oclMD8*I;q%Y69ubfH@y0`l6O+>6n%0>@5*OsOzZwtKd0r}D>`4#dUCl48vzk`%h3g+F8Kr-CO{I$0$mU>2e2rc9OMKn8m!Ffnx^xFOANqkAy"
    r"Yu4Fhe?LLK%cOj14RbXPZx?IX;<`Pgr3NQ04&TECUK(3sBHZ0R<62;p+p6AXEbso<Xwg8c<}pEZhyC5D5_oE&+u^l4w)_lt%GMQ;nbR-a0?`y>)nC"
    r"s=VNxqHaB2@lKI5+>Uc`#kw|6$|nULX;$}I*9FCU(>#%RbZlSXv9Ym3V`Ga5o8$tNL4v`jGV6l3k@u|@i`=*O(#*HX{kq^!DG(^ZU@#jDrnBovJHi"
    r"JRpOE(!=d?Ke`^p$)@GLRPa8*BRkGRP4p~fL*C_grdMU<>z5eejjfg|)i+XlwnBJ1YN_(jQ-7BjSjQO`4KVPBu;ipe+(1*l_AG?4^#*%SzFi5zbL!"
    r"w>+65pMz(v$83fyh$1nOe4f5N-QtQvMIB0HhM<M_l3!<OtF@Pq(^HBqcsB2h~`8{D<sQoH<Ak2;7rbDwP~>o0W}FU1o<SuumWrZ@(GaPMAQi66Hzr"
    r"#bA@~a)mT(*&7<)su2`)K@?)wPF+_~vC$9YT8Iml!z?LV&=Cqc;(`85^!U!^)IgAn!237ktV!AL&L>MGVGlNkgK!6arbIV8|Be9ZO7$u=);Vxj*l7"
    r"PHR7$uP;T5w>rQ7pQk;`wwLvC*EHw+35!>x}P%>6txk177YD)$aER2ly^=*fi%n|EyZ>t+lEp&{t9}DSB@ES1ng=eD#gM=9Mk<ePH3Q&hH2YKc;k@"
    r"yF`63lvX42PbgI9iyzn3hnhHL)cXy}!GX?QE0n;GJcN<=tJiMLsu%m8Aex4nzkVpQ@#w(8cMpCq@Rn!w%KQ6&7dWx}-pprCZqIDY1`dBEcza;}TbF"
    r"0Rx7HsT*nMv1-I13wzj<~zuy{w{@V`#q9r(`R#>2;h4`jxkT&8^K=$9=I&+E>|+c`XZ<rkj+bN0ykOwTs$nDX|`Z;U*%?nxzo;f^)8-Fx}@yRx1WC"
    r"%^yVfs@K(*UJYIOJB+6Tlc=V<BmIDctKIGxuN?f*PT$-J>psN$bXM#ujy@m@sFQ)sno}7xyB_k@&L0ukY$LVh@r%Z0AnO!UJr>Z5_wV7Sd%~_!9-D"
    r"j0>=uv#6t~)I9U)RO_pb)kN1Dij30D!Zw?ygpz*^2jbe3Z6m6H+Jv0&lA|knSFi9XIA<i{4BCagl4K!L3vRi0GG9!t=hQ>xQ<40>Skgo>2)$$da>M"
    r"+}f&BvTy(Y}%y&p(e|4=aZb(o0bZ2$Aa<#VUqHHE3N=W$jW_cUkqn&vu*iLTWi9E^>U(i;67ykG1zG`&O-00xef59M`0DgS$I!eDIi>`<$st`ihRz"
    r"pW4_l&~s2dvGgYONbC>lk_}($I4<3$qUiO?zK=Yq4iBH#@q_gjcci}F+;Q$#UsV??Ycjh}UKDtQz4@^J$~Ra3cJ<CcoAgSC+5Df(eY<`bSaI1>W%c"
    r"4^*{j}q?y&m6Lx-Q=_lv-H`|k>T{>@{V_wIT;qwbGoMm)>1_wP+8p4WE&nywf96YD}}JzRRMXNVuC?6Ds8dM7bidocOV8tF1?d#!H$RmRaKo%F^de"
    r"MG%mi$;kmq(Y%MHi08*;O+z_!-I@pPaEAhMa|TyyR+$7I91n~y<uR!E6Uc*kRgX8EJ4mBZ8QV$JjSdB0Om{#49O573W=NnLb_<O29JTMYXrlAWFi@"
    r"`v(cF?$%!)$+xCuIuuGp=c~QdNc5YatI}H@KGR+FIRVG7od$#rvX`&X!I4Q8xocquiyd-^UE5PcAE|n^5!J$+<k!&MN(VI$4YeJI5uuy6U?-LycPW"
    r"&Uh3*d+JkMNLh0PqtPh8IvHfL|bdj`*4LIU*yH%YJd7pE)xe3Qzd0q1;8SdOAQxjDSG3WZ0rb(vv}dm31ddj8HSR!l7yMx<LI|7R~%@B@tl|oT*z("
    r"(i3rR-C_<gqTt#sCZT2FF2LWCKyKY)5=o+|Tiht>Z=NE}&#R!_snYk^I*mCyo#jerc>FY`bE?u)athN^aRO5*5z3a7R(;z$Mz-ypm*@!zrTx*RS?8"
    r"q`{%@tJVopuY%jK!fbDlo+mxmrdlyypF{6xgR*TkQ@=h%Vlq3qh%-aGKH($c-@)V-JfjL`aX&mITI=KIvd`h^efZ26nAd1cF=?(99D{qdgTe_#7gU"
    r"#`^c{p(HcI5fnvJY)q4U?_`*%t{hMK;|_KAczep>Oj{FiF|>`(0ObK5MjxH0+KXcMC`0|d*?W`F&sK;OyfBaodePLA4FMDokS4;u1K_+9?@bDKiyN"
    r"bRh8&}*+^ifCl^5B_`~!~XnO2H;@z9jJXaR(#)P&cT$|9m%t!)g@X3XGJX&a1>LyObwQjECMmNf}_SWFvT5hzj4qw*0d^0?K+cYVUE>H{QI?J8@v^"
    r"vhEl{`xS`)9x@J@nLVflUYK3EWydy6ffT%C4991nk#xi%FeVwv<f^bMRH%7dW-jWj?3GX)d%~I6cSt3^D9f9q0c6z}=5*"
)
"""Written by the release before learners had steps, probabilities and detectors, in base85, zlib-compressed: entries of
a log, and for each algorithm the spec, the state after half of them, and that after all."""


class Stored(NamedTuple):
    """A model as that release left it."""

    spec: bytes
    middle: bytes
    end: bytes


ENTRIES, _MODELS = msgpack.unpackb(zlib.decompress(base64.b85decode(SECOND_VERSION)))
MODELS = [Stored(*model) for model in _MODELS]
LOG = [LogEntry(str(i), decode(entry)) for i, entry in enumerate(ENTRIES, 1)]

OLD = pytest.mark.parametrize("stored", MODELS, ids=["falt", "salt", "kernel_falt"])


def learnt(state: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """All of a state but its spec, its version, and the answers kept with keys, whose form has changed."""
    arrays, header = load(state)
    facts = {name: fact for name, fact in header.items() if name not in ("spec", "version")}
    bits = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in arrays.items()}
    return {name: own for name, own in bits.items() if name != "keys"}, facts


@OLD
def test_a_log_folds_to_the_same_bits(stored: Stored) -> None:
    model = OnlineModel(ModelSpec.from_bytes(stored.spec))
    half = len(LOG) // 2
    fold(model, LOG[:half])
    assert learnt(model.to_bytes()) == learnt(stored.middle)
    fold(model, LOG[half:])
    assert learnt(model.to_bytes()) == learnt(stored.end)


@OLD
def test_a_snapshot_is_restored_and_gone_on_from(stored: Stored) -> None:
    straight = OnlineModel(ModelSpec.from_bytes(stored.spec))
    fold(straight, LOG)
    model = OnlineModel.from_bytes(stored.middle)
    assert model.spec == straight.spec, "or a rollback to it would be refused"
    assert learnt(model.to_bytes()) == learnt(stored.middle)
    fold(model, LOG[len(LOG) // 2 :])
    assert model.to_bytes() == straight.to_bytes()
    assert load(model.to_bytes()).header["version"] == 3


@OLD
def test_it_is_written_explicitly_from_then_on(stored: Stored) -> None:
    spec = ModelSpec.from_bytes(stored.spec)
    params = spec.params.model_dump()
    assert params.items() >= {"step": "gradient", "average": False, "calibrate": False}.items()
    assert (params["optimise"], params["drift"], params["on_drift"]) == ("none", None, None)
    assert ModelSpec.from_bytes(spec.to_bytes()) == spec
    assert ModelSpec.model_validate_json(spec.to_bytes()) == spec


@OLD
def test_the_defaults_of_today_would_mean_something_else(stored: Stored) -> None:
    """What the tests above would not notice if they read the spec as that of a new model."""
    arrays, header = load(stored.middle)
    today = ModelSpec.model_validate({"name": "m", "algorithm": header["spec"]["algorithm"]})
    model = OnlineModel(today)
    fold(model, LOG[: len(LOG) // 2])
    assert learnt(model.to_bytes()) != learnt(stored.middle)
    assert dump(arrays, header) == stored.middle
