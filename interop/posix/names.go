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
		p.tryOpen("create", name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
		p.sayError("rename", unix.Rename(p.pathOf(name), p.pathOf("short")))
		p.sayError("and back", unix.Rename(p.pathOf("short"), p.pathOf(name)))
		p.sayError("unlink", unix.Unlink(p.pathOf(name)))
		p.sayError("mkdir", unix.Mkdir(p.pathOf(name), 0o755))
		p.sayEntries("")
		p.sayError("rmdir", unix.Rmdir(p.pathOf(name)))
		p.sayError("symlink", unix.Symlink("x", p.pathOf(name)))
		p.sayError("link", unix.Link(p.pathOf(name), p.pathOf("short")))
		p.mustSucceed(unix.Unlink(p.pathOf(name)))
		p.mustSucceed(unix.Unlink(p.pathOf("short")))
	}
}

func nameTooLong(p *probe) {
	long := strings.Repeat("n", 256)
	p.makeFile("f", "")
	p.tryOpen("create", long, unix.O_CREAT|unix.O_WRONLY)
	p.tryOpen("open", long, unix.O_RDONLY)
	p.sayExists(long)
	p.sayError("mkdir", unix.Mkdir(p.pathOf(long), 0o755))
	p.sayError("symlink", unix.Symlink("x", p.pathOf(long)))
	p.sayError("mkfifo", unix.Mkfifo(p.pathOf(long), 0o600))
	p.sayError("link", unix.Link(p.pathOf("f"), p.pathOf(long)))
	p.sayError("rename", unix.Rename(p.pathOf("f"), p.pathOf(long)))
	p.sayError("unlink", unix.Unlink(p.pathOf(long)))
	p.sayError("rmdir", unix.Rmdir(p.pathOf(long)))
	p.sayExists(long + "/x")
	p.sayEntries("")
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
		p.createFile(name, 0o644)
	}
	p.say("all there: %v", slices.Equal(want, entryNames(p.readAllEntries(p.openSelf()))))
	found := 0
	for _, name := range want {
		if unix.Access(p.pathOf(name), unix.F_OK) == nil {
			found++
		}
	}
	p.say("found: %d", found)
}

func nameNotText(p *probe) {
	for _, name := range []string{"caf\xe9", "\xc0\xaf", "\xed\xa0\x80", "\xff", "\xfe\xff", "\x80", "日\x80"} {
		p.makeFile(name, name)
		p.mustSucceed(unix.Rename(p.pathOf(name), p.pathOf(name+"\x81")))
		p.sayContent(name + "\x81")
	}
	p.sayEntries("")
}

func nameCase(p *probe) {
	p.makeFile("name", "small")
	p.makeFile("NAME", "large")
	p.makeFile("Name", "one")
	p.sayEntries("")
	p.sayContent("name")
}

func nameNormalForms(p *probe) {
	p.makeFile("caf\u00e9", "one code point")
	p.makeFile("cafe\u0301", "two")
	p.sayEntries("")
	p.sayContent("caf\u00e9")
}

func nameDots(p *probe) {
	for _, name := range []string{"...", ".hidden", ".nfs0000", "-rf", "*", " ", "a ", "a.", "con", "\\", "a:b", "~"} {
		p.makeFile(name, name)
	}
	p.sayEntries("")
	p.sayContent("...")
	p.sayContent(" ")
}
