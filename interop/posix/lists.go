package posix

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

var listCases = []Case{
	{"list-empty", anyone, listEmpty},
	{"list-kinds", anyone, listKinds},
	{"list-inodes", anyone, listInodes},
	{"list-large", anyone, listLarge},
	{"list-small-buffer", anyone, listSmallBuffer},
	{"list-rewind", anyone, listRewind},
	{"list-seek", anyone, listSeek},
}

// makeMany makes n files and returns their names.
func (p *probe) makeMany(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%04d-with-a-name-that-is-not-short", i))
		p.createFile(names[i], 0o644)
	}
	return names
}

// openSelf opens the case's directory.
func (p *probe) openSelf() int { return p.openFD(".", unix.O_RDONLY|unix.O_DIRECTORY) }

// sortedNames returns the entries' names, sorted.
func sortedNames(list []dirEntry) []string {
	var n []string
	for _, e := range list {
		n = append(n, e.name)
	}
	slices.Sort(n)
	return n
}

func listEmpty(p *probe) {
	fd := p.openSelf()
	p.say("%q", sortedNames(p.readAllEntries(fd)))
	p.say("and on: %q", sortedNames(p.readAllEntries(fd)))
}

func listKinds(p *probe) {
	p.makeFile("file", "")
	p.makeDir("dir")
	p.mustSucceed(unix.Symlink("x", p.pathOf("symlink")))
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	p.mustSucceed(unix.Mknod(p.pathOf("socket"), unix.S_IFSOCK|0o600, 0))
	list := p.readAllEntries(p.openSelf())
	slices.SortFunc(list, func(a, b dirEntry) int { return cmp.Compare(a.name, b.name) })
	for _, e := range list {
		p.say("%s is of kind %d", e.name, e.kind)
	}
}

func listInodes(p *probe) {
	p.makeFile("a", "")
	p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf("b")))
	p.makeDir("d")
	for _, name := range []string{".", "a", "b", "d"} {
		for _, e := range p.readAllEntries(p.openSelf()) {
			if e.name == name {
				p.say("%s: as stat says: %v", name, e.ino == p.lstat(name).Ino)
			}
		}
	}
}

func listLarge(p *probe) {
	want := p.makeMany(150)
	p.say("all, once: %v", slices.Equal(want, entryNames(p.readAllEntries(p.openSelf()))))
}

func listSmallBuffer(p *probe) {
	want := p.makeMany(30)
	fd := p.openSelf()
	var got []dirEntry
	for {
		some := p.readEntries(fd, 100)
		if len(some) == 0 {
			break
		}
		got = append(got, some...)
	}
	p.say("all, once: %v", slices.Equal(want, entryNames(got)))
	_, err := unix.Seek(fd, 0, 0)
	p.mustSucceed(err)
	_, err = unix.Getdents(fd, make([]byte, 10))
	p.sayError("no room", err)
}

func listRewind(p *probe) {
	p.makeFile("a", "")
	fd := p.openSelf()
	p.say("%q", entryNames(p.readAllEntries(fd)))
	p.makeFile("b", "")
	p.mustSucceed(unix.Unlink(p.pathOf("a")))
	_, err := unix.Seek(fd, 0, 0)
	p.sayError("rewind", err)
	p.say("%q", entryNames(p.readAllEntries(fd)))
}

// A listing continues in the same way after any entry.
func listSeek(p *probe) {
	p.makeMany(60)
	fd := p.openSelf()
	list := p.readAllEntries(fd)
	right := 0
	for i := 0; i < len(list); i += 7 {
		at, err := unix.Seek(fd, list[i].next, 0)
		p.mustSucceed(err)
		if at != list[i].next {
			p.say("seek to the wrong place")
		}
		if slices.Equal(sortedNames(list[i+1:]), sortedNames(p.readAllEntries(fd))) {
			right++
		}
	}
	p.say("%d of 9 right", right)
	now, err := unix.Seek(fd, 0, 1)
	p.mustSucceed(err)
	p.say("told at the end: %v", now == list[len(list)-1].next)
}
