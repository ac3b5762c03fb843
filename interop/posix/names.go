package posix

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var nameCases = []Case{
	{"name-longest", anyone, nameLongest},
	{"name-too-long", anyone, nameTooLong},
	{"name-bytes", anyone, nameBytes},
	{"name-not-text", anyone, nameNotText},
	{"name-case", anyone, nameCase},
	{"name-normal-forms", anyone, nameNormalForms},
	{"name-dots", anyone, nameDots},
}

func nameLongest(p *probe) {
	for _, name := range []string{strings.Repeat("n", 255), strings.Repeat("é", 127) + "n", strings.Repeat("\xff", 255)} {
		p.try("create", name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
		p.result("rename", unix.Rename(p.at(name), p.at("short")))
		p.result("and back", unix.Rename(p.at("short"), p.at(name)))
		p.result("unlink", unix.Unlink(p.at(name)))
		p.result("mkdir", unix.Mkdir(p.at(name), 0o755))
		p.lists("")
		p.result("rmdir", unix.Rmdir(p.at(name)))
		p.result("symlink", unix.Symlink("x", p.at(name)))
		p.result("link", unix.Link(p.at(name), p.at("short")))
		p.need(unix.Unlink(p.at(name)))
		p.need(unix.Unlink(p.at("short")))
	}
}

func nameTooLong(p *probe) {
	long := strings.Repeat("n", 256)
	p.file("f", "")
	p.try("create", long, unix.O_CREAT|unix.O_WRONLY)
	p.try("open", long, unix.O_RDONLY)
	p.exists(long)
	p.result("mkdir", unix.Mkdir(p.at(long), 0o755))
	p.result("symlink", unix.Symlink("x", p.at(long)))
	p.result("mkfifo", unix.Mkfifo(p.at(long), 0o600))
	p.result("link", unix.Link(p.at("f"), p.at(long)))
	p.result("rename", unix.Rename(p.at("f"), p.at(long)))
	p.result("unlink", unix.Unlink(p.at(long)))
	p.result("rmdir", unix.Rmdir(p.at(long)))
	p.exists(long + "/x")
	p.lists("")
}

// Names may contain every byte except two.
func nameBytes(p *probe) {
	want := make([]string, 16)
	for c := 1; c < 256; c++ {
		if c != '/' {
			want[c/16] += string([]byte{byte(c)})
		}
	}
	slices.Sort(want)
	for _, name := range want {
		p.create(name, 0o644)
	}
	p.say("all there: %v", slices.Equal(want, sorted(p.all(p.self()))))
	found := 0
	for _, name := range want {
		if unix.Access(p.at(name), unix.F_OK) == nil {
			found++
		}
	}
	p.say("found: %d", found)
}

func nameNotText(p *probe) {
	for _, name := range []string{"caf\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xff", "\xfe\xff", "\x80", "日\x80"} {
		p.file(name, name)
		p.need(unix.Rename(p.at(name), p.at(name+"\x81")))
		p.holds(name + "\x81")
	}
	p.lists("")
}

func nameCase(p *probe) {
	p.file("name", "small")
	p.file("NAME", "large")
	p.file("Name", "one")
	p.lists("")
	p.holds("name")
}

func nameNormalForms(p *probe) {
	p.file("caf\u00e9", "one code point")
	p.file("cafe\u0301", "two")
	p.lists("")
	p.holds("caf\u00e9")
}

func nameDots(p *probe) {
	for _, name := range []string{"...", ".hidden", ".nfs0000", "-rf", "*", " ", "a ", "a.", "con", "\\", "a:b", "~"} {
		p.file(name, name)
	}
	p.lists("")
	p.holds("...")
	p.holds(" ")
}
