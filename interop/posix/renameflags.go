package posix

import "golang.org/x/sys/unix"

var renameFlagCases = []Case{
	{"rename-noreplace", anyone, renameNoReplace},
	{"rename-exchange", anyone, renameExchange},
	{"rename-flags-wrong", anyone, renameFlagsWrong},
}

func (p *probe) move2(from, to string, flags uint) {
	p.result(from+" to "+to, unix.Renameat2(unix.AT_FDCWD, p.at(from), unix.AT_FDCWD, p.at(to), flags))
}

func renameNoReplace(p *probe) {
	p.file("a", "a")
	p.file("b", "b")
	p.move2("a", "b", unix.RENAME_NOREPLACE)
	p.move2("a", "c", unix.RENAME_NOREPLACE)
	p.lists("")
	p.holds("b")
}

func renameExchange(p *probe) {
	p.file("a", "a")
	p.mkdir("b")
	p.move2("a", "none", unix.RENAME_EXCHANGE)
	p.move2("a", "b", unix.RENAME_EXCHANGE)
	p.say("a is a directory: %v", p.status("a").Mode&unix.S_IFMT == unix.S_IFDIR)
}

func renameFlagsWrong(p *probe) {
	p.file("a", "a")
	p.move2("a", "b", unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE)
	p.move2("a", "b", 1<<10)
	p.lists("")
}
