package posix

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

var changeCases = []Case{
	{"change-read", anyone, changeRead},
	{"change-write", anyone, changeWrite},
	{"change-write-nothing", anyone, changeWriteNothing},
	{"change-truncate", anyone, changeTruncate},
	{"change-open", anyone, changeOpen},
	{"change-chmod", anyone, changeChmod},
	{"change-mapping", anyone, changeMapping},
}

// tick returns when the file system's clock has advanced since all earlier
// operations.
func (p *probe) tick() {
	fd, err := unix.Open(p.clock, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.need(err)
	defer unix.Close(fd)
	read := func() unix.Timespec {
		p.need(unix.UtimesNanoAt(unix.AT_FDCWD, p.clock, []unix.Timespec{now, now}, 0))
		return p.fstat(fd).Ctim
	}
	for begin := read(); compare(read(), begin) <= 0; {
	}
}

// changes records which times of these objects f changes. A name "a>b" is an
// object that f moves from a to b.
func (p *probe) changes(what string, names []string, f func()) {
	var before []unix.Stat_t
	for _, name := range names {
		from, _, _ := strings.Cut(name, ">")
		p.need(p.set(from, old, oldM))
		before = append(before, p.status(from))
	}
	p.tick()
	f()
	var seen []string
	for i, name := range names {
		from, to, moved := strings.Cut(name, ">")
		if !moved {
			to = from
		}
		seen = append(seen, from+" "+changed(before[i], p.status(to)))
	}
	p.say("%s: %s", what, strings.Join(seen, ", "))
}

// changed names the times that differ.
func changed(a, b unix.Stat_t) string {
	var which []string
	for _, t := range []struct {
		name string
		a, b unix.Timespec
	}{{"atime", a.Atim, b.Atim}, {"mtime", a.Mtim, b.Mtim}, {"ctime", a.Ctim, b.Ctim}} {
		if t.a != t.b {
			which = append(which, t.name)
		}
	}
	if len(which) == 0 {
		return "none"
	}
	return strings.Join(which, "+")
}

func changeRead(p *probe) {
	p.file("file", "content")
	p.changes("read", []string{"file"}, func() { p.read(p.fd("file", unix.O_RDONLY), 3, 0) })
	p.changes("read again", []string{"file"}, func() { p.read(p.fd("file", unix.O_RDONLY), 3, 0) })
}

func changeWrite(p *probe) {
	p.file("file", "content")
	fd := p.fd("file", unix.O_WRONLY)
	p.changes("write", []string{"file", "."}, func() { p.write(fd, "C", 0) })
	p.changes("append", []string{"file", "."}, func() { p.write(fd, "more", 7) })
	p.changes("write and sync", []string{"file"}, func() {
		p.write(fd, "M", 7)
		p.need(unix.Fsync(fd))
	})
	p.changes("sync", []string{"file"}, func() { p.need(unix.Fsync(fd)) })
}

func changeWriteNothing(p *probe) {
	p.file("file", "content")
	fd := p.fd("file", unix.O_WRONLY)
	p.changes("write", []string{"file"}, func() { p.write(fd, "", 0) })
}

func changeTruncate(p *probe) {
	p.file("file", "content")
	for _, n := range []int64{3, 3, 100, 0} {
		p.changes(fmt.Sprintf("truncate to %d", n), []string{"file"}, func() {
			p.need(unix.Truncate(p.at("file"), n))
		})
	}
	fd := p.fd("file", unix.O_RDWR)
	p.changes("ftruncate to the same", []string{"file"}, func() { p.need(unix.Ftruncate(fd, 0)) })
}

func changeOpen(p *probe) {
	p.file("file", "content")
	p.changes("open and close", []string{"file", "."}, func() { p.try("open", "file", unix.O_RDWR) })
	p.changes("O_CREAT of what exists", []string{"file", "."}, func() { p.try("open", "file", unix.O_RDWR|unix.O_CREAT) })
	p.changes("O_TRUNC", []string{"file", "."}, func() { p.try("open", "file", unix.O_RDWR|unix.O_TRUNC) })
	p.changes("O_TRUNC of nothing", []string{"file"}, func() { p.try("open", "file", unix.O_RDWR|unix.O_TRUNC) })
}

func changeChmod(p *probe) {
	p.file("file", "content")
	p.changes("chmod", []string{"file", "."}, func() { p.need(unix.Chmod(p.at("file"), 0o600)) })
	p.changes("chmod to the same", []string{"file"}, func() { p.need(unix.Chmod(p.at("file"), 0o600)) })
	p.changes("chown to the same", []string{"file"}, func() {
		st := p.status("file")
		p.need(unix.Chown(p.at("file"), int(st.Uid), int(st.Gid)))
	})
	p.changes("utimens", []string{"file"}, func() { p.need(p.set("file", old, oldM)) })
}

func changeMapping(p *probe) {
	p.file("file", "content")
	fd := p.fd("file", unix.O_RDWR)
	m := p.mmap(fd, 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	p.changes("write through a mapping, msync", []string{"file"}, func() {
		m[0] = 'C'
		p.need(unix.Msync(m, unix.MS_SYNC))
	})
}
