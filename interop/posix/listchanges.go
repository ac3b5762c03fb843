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
	want := p.many(100)
	fd := p.self()
	seen := make(map[string]int)
	for {
		some := p.entries(fd, 512)
		if len(some) == 0 {
			break
		}
		for _, e := range some {
			seen[e.name]++
			if e.name != "." && e.name != ".." {
				p.need(unix.Unlink(p.at(e.name)))
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
	p.lists("")
}

// Entries added while a directory is read do not hide others, or show twice.
func listWhileAdded(p *probe) {
	want := p.many(60)
	fd := p.self()
	seen := make(map[string]int)
	for n := 0; ; {
		some := p.entries(fd, 512)
		if len(some) == 0 {
			break
		}
		for _, e := range some {
			seen[e.name]++
		}
		if n < 20 {
			p.create(fmt.Sprintf("new-%d", n), 0o644)
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
	p.file("a", "")
	p.lists("")
	p.file("b", "")
	p.lists("")
	p.need(unix.Rename(p.at("a"), p.at("c")))
	p.lists("")
	p.need(unix.Unlink(p.at("b")))
	p.lists("")
	p.mkdir("d")
	p.lists("")
}

func listRemoved(p *probe) {
	p.mkdir("d")
	fd := p.fd("d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.need(unix.Rmdir(p.at("d")))
	_, err := unix.Getdents(fd, make([]byte, 1000))
	p.result("read", err)
}

func listTwo(p *probe) {
	want := p.many(60)
	a, b := p.self(), p.self()
	var first []entry
	first = append(first, p.entries(a, 512)...)
	p.say("the other: %v", slices.Equal(want, sorted(p.all(b))))
	first = append(first, p.all(a)...)
	p.say("the first: %v", slices.Equal(want, sorted(first)))
}
