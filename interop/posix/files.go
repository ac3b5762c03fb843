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

// makeFile makes a file with this content.
func (p *probe) makeFile(name, content string) {
	p.mustSucceed(os.WriteFile(p.pathOf(name), []byte(content), 0o644))
}

// makeDir makes a directory.
func (p *probe) makeDir(name string) { p.mustSucceed(unix.Mkdir(p.pathOf(name), 0o755)) }

// openFD opens a file until the case ends.
func (p *probe) openFD(name string, flags int) int {
	fd, err := unix.Open(p.pathOf(name), flags|unix.O_CLOEXEC, 0o644)
	p.mustSucceed(err)
	p.fds = append(p.fds, fd)
	p.later = append(p.later, func() { _ = unix.Close(fd) })
	return fd
}

// tryOpen opens a file, closes it, and records the result.
func (p *probe) tryOpen(what, name string, flags int) {
	fd, err := unix.Open(p.pathOf(name), flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		err = unix.Close(fd)
	}
	p.sayError(what, err)
}

// lstat returns lstat's result.
func (p *probe) lstat(name string) unix.Stat_t {
	var st unix.Stat_t
	p.mustSucceed(unix.Lstat(p.pathOf(name), &st))
	return st
}

func (p *probe) fstat(fd int) unix.Stat_t {
	var st unix.Stat_t
	p.mustSucceed(unix.Fstat(fd, &st))
	return st
}

// hidden matches the name that an NFS client gives to a removed file that is
// open.
var hidden = regexp.MustCompile(`^\.nfs[0-9a-f]{24}$`)

// showPath returns a path as transcripts show it: on one line, short, and reproducible.
func showPath(path string) string {
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

// sayMode records an object's permissions.
func (p *probe) sayMode(name string) {
	p.say("mode of %s: %04o", showPath(name), p.lstat(name).Mode&permissions)
}

// sayLinks records an object's link count.
func (p *probe) sayLinks(name string) { p.say("links of %s: %d", showPath(name), p.lstat(name).Nlink) }

// saySize records a file's size.
func (p *probe) saySize(name string) { p.say("size of %s: %d", showPath(name), p.lstat(name).Size) }

// sayOwner records an object's owner.
func (p *probe) sayOwner(name string) {
	st := p.lstat(name)
	p.say("owner of %s: %d:%d", showPath(name), st.Uid, st.Gid)
}

// sayExists records whether a name exists.
func (p *probe) sayExists(name string) {
	var st unix.Stat_t
	p.sayError("stat "+showPath(name), unix.Lstat(p.pathOf(name), &st))
}

// saySame records whether two names are one object.
func (p *probe) saySame(a, b string) {
	p.say("%s is %s: %v", showPath(a), showPath(b), p.lstat(a).Ino == p.lstat(b).Ino)
}

// sayContent records a file's content, which must be short.
func (p *probe) sayContent(name string) {
	b, err := os.ReadFile(p.pathOf(name))
	if err != nil {
		p.sayError("read "+showPath(name), err)
		return
	}
	p.say("%s holds %q", showPath(name), b)
}

// sayEntries records a directory's entries.
func (p *probe) sayEntries(name string) {
	entries, err := os.ReadDir(p.pathOf(name))
	p.mustSucceed(err)
	var names []string
	for _, e := range entries {
		names = append(names, showPath(e.Name()))
	}
	p.say("in %s: %q", showPath(name), names)
}

// isEmpty reports whether the case's directory is empty.
func (p *probe) isEmpty() bool {
	entries, err := os.ReadDir(p.dir)
	p.mustSucceed(err)
	return len(entries) == 0
}

// writeAt writes s at an offset.
func (p *probe) writeAt(fd int, s string, off int64) {
	n, err := unix.Pwrite(fd, []byte(s), off)
	p.mustSucceed(err)
	if n != len(s) {
		p.mustSucceed(io.ErrShortWrite)
	}
}

// readAt returns up to n bytes from an offset.
func (p *probe) readAt(fd, n int, off int64) string {
	b := make([]byte, n)
	got, err := unix.Pread(fd, b, off)
	p.mustSucceed(err)
	return string(b[:got])
}

// showBytes shows bytes, and replaces runs of zeros by their length.
func showBytes(s string) string {
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
