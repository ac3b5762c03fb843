package posix

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// xattrCases are not in the suite, because mountrdma and version 3 have no
// extended attributes.
var xattrCases = []Case{
	{"xattr-values", anyone, xattrValues},
	{"xattr-how", anyone, xattrHow},
	{"xattr-wrong", anyone, xattrWrong},
	{"xattr-many-names", anyone, xattrManyNames},
	{"xattr-types", anyone, xattrTypes},
	{"xattr-ctime", anyone, xattrCtime},
	{"xattr-by-user", root, xattrByUser},
}

// xattr records an attribute's value.
func (p *probe) xattr(name, attr string) {
	b := make([]byte, 64<<10)
	n, err := unix.Lgetxattr(p.pathOf(name), attr, b)
	if err != nil {
		p.sayError(name+" "+attr, err)
		return
	}
	p.say("%s %s: %d bytes, %.20q", name, attr, n, b[:n])
}

// xattrNames records a file's user attributes.
func (p *probe) xattrNames(name string) {
	b := make([]byte, 64<<10)
	n, err := unix.Llistxattr(p.pathOf(name), b)
	if err != nil {
		p.sayError("list "+name, err)
		return
	}
	var names []string
	for attr := range strings.SplitSeq(string(b[:n]), "\x00") {
		if strings.HasPrefix(attr, "user.") {
			names = append(names, attr)
		}
	}
	slices.Sort(names)
	p.say("%s has %d attributes: %.80s", name, len(names), strings.Join(names, " "))
}

func (p *probe) setXattr(name, attr, value string, flags int) {
	what := fmt.Sprintf("set %s of %s to %d bytes", attr, name, len(value))
	p.sayError(what, unix.Lsetxattr(p.pathOf(name), attr, []byte(value), flags))
}

func xattrValues(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	for _, name := range []string{"f", "d"} {
		for _, size := range []int{1, 4096, 64 << 10, 64<<10 + 1, 0, 20} {
			p.setXattr(name, "user.a", strings.Repeat("v", size), 0)
			p.xattr(name, "user.a")
		}
		_, err := unix.Getxattr(p.pathOf(name), "user.a", make([]byte, 19))
		p.sayError("into a short buffer", err)
		n, err := unix.Getxattr(p.pathOf(name), "user.a", nil)
		p.sayError(fmt.Sprint("length ", n), err)
		p.sayError("remove", unix.Removexattr(p.pathOf(name), "user.a"))
		p.sayError("remove again", unix.Removexattr(p.pathOf(name), "user.a"))
		p.xattr(name, "user.a")
	}
}

func xattrHow(p *probe) {
	p.makeFile("f", "")
	p.setXattr("f", "user.a", "one", unix.XATTR_REPLACE)
	p.setXattr("f", "user.a", "one", unix.XATTR_CREATE)
	p.setXattr("f", "user.a", "two", unix.XATTR_CREATE)
	p.setXattr("f", "user.a", "other", unix.XATTR_REPLACE)
	p.xattr("f", "user.a")
}

func xattrWrong(p *probe) {
	p.makeFile("f", "")
	for _, attr := range []string{"user.", "user.user.a", "a", "user." + strings.Repeat("n", 250), "user." + strings.Repeat("n", 251), "other.a"} {
		p.setXattr("f", attr, "v", 0)
		p.xattr("f", attr)
	}
	p.xattrNames("f")
	p.xattr("missing", "user.a")
	p.setXattr("missing", "user.a", "v", 0)
}

func xattrManyNames(p *probe) {
	p.makeFile("f", "")
	p.xattrNames("f")
	failed := 0
	for i := range 1000 {
		if unix.Setxattr(p.pathOf("f"), fmt.Sprintf("user.number-%d", i), []byte("v"), 0) != nil {
			failed++
		}
	}
	p.say("%d failed", failed)
	p.xattrNames("f")
	_, err := unix.Listxattr(p.pathOf("f"), make([]byte, 100))
	p.sayError("into a short buffer", err)
	for i := range 999 {
		_ = unix.Removexattr(p.pathOf("f"), fmt.Sprintf("user.number-%d", i))
	}
	p.xattrNames("f")
}

func xattrTypes(p *probe) {
	p.makeFile("f", "")
	p.mustSucceed(unix.Symlink("f", p.pathOf("link")))
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o666))
	for _, name := range []string{"link", "fifo"} {
		p.setXattr(name, "user.a", "v", 0)
		p.xattr(name, "user.a")
		p.xattrNames(name)
	}
}

// xattrCtime notes which times an attribute moves.
func xattrCtime(p *probe) {
	p.makeFile("f", "")
	for _, f := range []func() error{
		func() error { return unix.Setxattr(p.pathOf("f"), "user.a", []byte("v"), 0) },
		func() error { return unix.Removexattr(p.pathOf("f"), "user.a") },
	} {
		var before, after unix.Stat_t
		p.mustSucceed(unix.Stat(p.pathOf("f"), &before))
		p.awaitTick()
		p.mustSucceed(f())
		p.mustSucceed(unix.Stat(p.pathOf("f"), &after))
		p.say("ctime moved: %t, mtime moved: %t", before.Ctim != after.Ctim, before.Mtim != after.Mtim)
	}
}

func xattrByUser(p *probe) {
	p.makeOwned("closed", 0, 0, 0o600)
	p.makeOwned("readable", 0, 0, 0o604)
	p.makeOwned("writable", 0, 0, 0o602)
	p.makeOwned("mine", user, group, 0o400)
	names := []string{"closed", "readable", "writable", "mine"}
	for _, name := range names {
		p.setXattr(name, "user.a", "v", 0)
	}
	p.runAs(user, group, nil, func() {
		for _, name := range names {
			p.xattr(name, "user.a")
			p.setXattr(name, "user.a", "mine", 0)
			p.xattrNames(name)
			p.sayError("remove", unix.Removexattr(p.pathOf(name), "user.a"))
		}
	})
	for _, name := range names {
		p.xattr(name, "user.a")
	}
}
