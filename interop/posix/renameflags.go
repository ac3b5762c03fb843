package posix

import "golang.org/x/sys/unix"

var renameFlagCases = []Case{
	{"rename-noreplace", anyone, renameNoReplace},
	{"rename-exchange", anyone, renameExchange},
	{"rename-flags-wrong", anyone, renameFlagsWrong},
}

func (p *probe) renameWithFlags(from, to string, flags uint) {
	p.sayError(from+" to "+to, unix.Renameat2(unix.AT_FDCWD, p.pathOf(from), unix.AT_FDCWD, p.pathOf(to), flags))
}

func renameNoReplace(p *probe) {
	p.makeFile("a", "a")
	p.makeFile("b", "b")
	p.renameWithFlags("a", "b", unix.RENAME_NOREPLACE)
	p.renameWithFlags("a", "c", unix.RENAME_NOREPLACE)
	p.sayEntries("")
	p.sayContent("b")
}

func renameExchange(p *probe) {
	p.makeFile("a", "a")
	p.makeDir("b")
	p.renameWithFlags("a", "none", unix.RENAME_EXCHANGE)
	p.renameWithFlags("a", "b", unix.RENAME_EXCHANGE)
	p.say("a is a directory: %v", p.lstat("a").Mode&unix.S_IFMT == unix.S_IFDIR)
}

func renameFlagsWrong(p *probe) {
	p.makeFile("a", "a")
	p.renameWithFlags("a", "b", unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE)
	p.renameWithFlags("a", "b", 1<<10)
	p.sayEntries("")
}
