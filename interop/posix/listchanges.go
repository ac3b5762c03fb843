package posix

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

var listChangeCases = []Case{
	{"list-while-removed", anyone, listWhileRemoved},
	{"list-while-added", anyone, listWhileAdded},
	{"list-after-change", anyone, listAfterChange},
	{"list-removed", anyone, listRemoved},
	{"list-two", anyone, listTwo},
}

// Entries removed while a directory is read do not hide others.
func listWhileRemoved(p *probe) {
	want := p.makeMany(100)
	fd := p.openSelf()
	seen := make(map[string]int)
	for {
		some := p.readEntries(fd, 512)
		if len(some) == 0 {
			break
		}
		for _, e := range some {
			seen[e.name]++
			if e.name != "." && e.name != ".." {
				p.mustSucceed(unix.Unlink(p.pathOf(e.name)))
			}
		}
	}
	once := 0
	for _, name := range want {
		if seen[name] == 1 {
			once++
		}
	}
	p.say("seen once: %d of %d", once, len(want))
	p.sayEntries("")
}

// Entries added while a directory is read do not hide others, or show twice.
func listWhileAdded(p *probe) {
	want := p.makeMany(60)
	fd := p.openSelf()
	seen := make(map[string]int)
	for n := 0; ; {
		some := p.readEntries(fd, 512)
		if len(some) == 0 {
			break
		}
		for _, e := range some {
			seen[e.name]++
		}
		if n < 20 {
			p.createFile(fmt.Sprintf("new-%d", n), 0o644)
			n++
		}
	}
	once, twice := 0, 0
	for _, name := range want {
		if seen[name] == 1 {
			once++
		}
	}
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	p.say("seen once: %d of %d, twice: %d", once, len(want), twice)
}

func listAfterChange(p *probe) {
	p.makeFile("a", "")
	p.sayEntries("")
	p.makeFile("b", "")
	p.sayEntries("")
	p.mustSucceed(unix.Rename(p.pathOf("a"), p.pathOf("c")))
	p.sayEntries("")
	p.mustSucceed(unix.Unlink(p.pathOf("b")))
	p.sayEntries("")
	p.makeDir("d")
	p.sayEntries("")
}

func listRemoved(p *probe) {
	p.makeDir("d")
	fd := p.openFD("d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.mustSucceed(unix.Rmdir(p.pathOf("d")))
	_, err := unix.Getdents(fd, make([]byte, 1000))
	p.sayError("read", err)
}

func listTwo(p *probe) {
	want := p.makeMany(60)
	a, b := p.openSelf(), p.openSelf()
	var first []dirEntry
	first = append(first, p.readEntries(a, 512)...)
	p.say("the other: %v", slices.Equal(want, entryNames(p.readAllEntries(b))))
	first = append(first, p.readAllEntries(a)...)
	p.say("the first: %v", slices.Equal(want, entryNames(first)))
}
