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

// many makes n files and returns their names.
func (p *probe) many(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%04d-with-a-name-that-is-not-short", i))
		p.create(names[i], 0o644)
	}
	return names
}

// self opens the directory of the case.
func (p *probe) self() int { return p.fd(".", unix.O_RDONLY|unix.O_DIRECTORY) }

// names returns the names of entries, sorted.
func names(list []entry) []string {
	var n []string
	for _, e := range list {
		n = append(n, e.name)
	}
	slices.Sort(n)
	return n
}

func listEmpty(p *probe) {
	fd := p.self()
	p.say("%q", names(p.all(fd)))
	p.say("and on: %q", names(p.all(fd)))
}

func listKinds(p *probe) {
	p.file("file", "")
	p.mkdir("dir")
	p.need(unix.Symlink("x", p.at("symlink")))
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	p.need(unix.Mknod(p.at("socket"), unix.S_IFSOCK|0o600, 0))
	list := p.all(p.self())
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for _, e := range list {
		p.say("%s is of kind %d", e.name, e.kind)
	}
}

func listInodes(p *probe) {
	p.file("a", "")
	p.need(unix.Link(p.at("a"), p.at("b")))
	p.mkdir("d")
	for _, name := range []string{".", "a", "b", "d"} {
		for _, e := range p.all(p.self()) {
			if e.name == name {
				p.say("%s: as stat says: %v", name, e.ino == p.status(name).Ino)
			}
		}
	}
}

func listLarge(p *probe) {
	want := p.many(150)
	p.say("all, once: %v", slices.Equal(want, sorted(p.all(p.self()))))
}

func listSmallBuffer(p *probe) {
	want := p.many(30)
	fd := p.self()
	var got []entry
	for {
		some := p.entries(fd, 100)
		if len(some) == 0 {
			break
		}
		got = append(got, some...)
	}
	p.say("all, once: %v", slices.Equal(want, sorted(got)))
	_, err := unix.Seek(fd, 0, 0)
	p.need(err)
	_, err = unix.Getdents(fd, make([]byte, 10))
	p.result("no room", err)
}

func listRewind(p *probe) {
	p.file("a", "")
	fd := p.self()
	p.say("%q", sorted(p.all(fd)))
	p.file("b", "")
	p.need(unix.Unlink(p.at("a")))
	_, err := unix.Seek(fd, 0, 0)
	p.result("rewind", err)
	p.say("%q", sorted(p.all(fd)))
}

// A listing continues in the same way from the end of any entry.
func listSeek(p *probe) {
	p.many(60)
	fd := p.self()
	list := p.all(fd)
	right := 0
	for i := 0; i < len(list); i += 7 {
		at, err := unix.Seek(fd, list[i].next, 0)
		p.need(err)
		if at != list[i].next {
			p.say("seek to the wrong place")
		}
		if slices.Equal(names(list[i+1:]), names(p.all(fd))) {
			right++
		}
	}
	p.say("%d of 9 right", right)
	now, err := unix.Seek(fd, 0, 1)
	p.need(err)
	p.say("told at the end: %v", now == list[len(list)-1].next)
}
