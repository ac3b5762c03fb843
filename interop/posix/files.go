package posix

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// file makes a file with this content.
func (p *probe) file(name, content string) {
	p.need(os.WriteFile(p.at(name), []byte(content), 0o644))
}

// mkdir makes a directory.
func (p *probe) mkdir(name string) { p.need(unix.Mkdir(p.at(name), 0o755)) }

// fd opens a file until the end of the case.
func (p *probe) fd(name string, flags int) int {
	fd, err := unix.Open(p.at(name), flags|unix.O_CLOEXEC, 0o644)
	p.need(err)
	p.fds = append(p.fds, fd)
	p.later = append(p.later, func() { _ = unix.Close(fd) })
	return fd
}

// try opens a file, closes it, and records the result.
func (p *probe) try(what, name string, flags int) {
	fd, err := unix.Open(p.at(name), flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		err = unix.Close(fd)
	}
	p.result(what, err)
}

// status returns the result of lstat.
func (p *probe) status(name string) unix.Stat_t {
	var st unix.Stat_t
	p.need(unix.Lstat(p.at(name), &st))
	return st
}

func (p *probe) fstat(fd int) unix.Stat_t {
	var st unix.Stat_t
	p.need(unix.Fstat(fd, &st))
	return st
}

// hidden matches the name that an NFS client gives to a removed file that is
// open.
var hidden = regexp.MustCompile(`^\.nfs[0-9a-f]{24}$`)

// show returns a path in the form of transcripts: on one line, short, and
// reproducible.
func show(path string) string {
	switch {
	case hidden.MatchString(path):
		return ".nfs(number)"
	case path == "":
		return "."
	case len(path) > 60:
		return fmt.Sprintf("%d bytes", len(path))
	case !utf8.ValidString(path):
		return strconv.Quote(path)
	default:
		return path
	}
}

// mode records the permissions of an object.
func (p *probe) mode(name string) {
	p.say("mode of %s: %04o", show(name), p.status(name).Mode&permissions)
}

// links records the link count of an object.
func (p *probe) links(name string) { p.say("links of %s: %d", show(name), p.status(name).Nlink) }

// size records the size of a file.
func (p *probe) size(name string) { p.say("size of %s: %d", show(name), p.status(name).Size) }

// owner records the owner of an object.
func (p *probe) owner(name string) {
	st := p.status(name)
	p.say("owner of %s: %d:%d", show(name), st.Uid, st.Gid)
}

// exists records whether a name exists.
func (p *probe) exists(name string) {
	var st unix.Stat_t
	p.result("stat "+show(name), unix.Lstat(p.at(name), &st))
}

// same records whether two names are one object.
func (p *probe) same(a, b string) {
	p.say("%s is %s: %v", show(a), show(b), p.status(a).Ino == p.status(b).Ino)
}

// holds records the content of a file, which must be short.
func (p *probe) holds(name string) {
	b, err := os.ReadFile(p.at(name))
	if err != nil {
		p.result("read "+show(name), err)
		return
	}
	p.say("%s holds %q", show(name), b)
}

// lists records the entries of a directory.
func (p *probe) lists(name string) {
	entries, err := os.ReadDir(p.at(name))
	p.need(err)
	var names []string
	for _, e := range entries {
		names = append(names, show(e.Name()))
	}
	p.say("in %s: %q", show(name), names)
}

// empty reports whether the case's directory is empty.
func (p *probe) empty() bool {
	entries, err := os.ReadDir(p.dir)
	p.need(err)
	return len(entries) == 0
}

// write writes all of s at an offset.
func (p *probe) write(fd int, s string, off int64) {
	n, err := unix.Pwrite(fd, []byte(s), off)
	p.need(err)
	if n != len(s) {
		p.need(io.ErrShortWrite)
	}
}

// read returns up to n bytes from an offset.
func (p *probe) read(fd, n int, off int64) string {
	b := make([]byte, n)
	got, err := unix.Pread(fd, b, off)
	p.need(err)
	return string(b[:got])
}

// brief shows bytes, with runs of zeros by their length.
func brief(s string) string {
	var b strings.Builder
	for s != "" {
		rest := strings.TrimLeft(s, "\x00")
		if n := len(s) - len(rest); n > 0 {
			fmt.Fprintf(&b, "[%d zeros]", n)
		}
		i := strings.IndexByte(rest, 0)
		if i < 0 {
			i = len(rest)
		}
		b.WriteString(rest[:i])
		s = rest[i:]
	}
	return b.String()
}
