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

// awaitTick returns when the file system's clock has advanced since all earlier
// operations.
func (p *probe) awaitTick() {
	fd, err := unix.Open(p.clock, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.mustSucceed(err)
	defer unix.Close(fd)
	read := func() unix.Timespec {
		p.mustSucceed(unix.UtimesNanoAt(unix.AT_FDCWD, p.clock, []unix.Timespec{now, now}, 0))
		return p.fstat(fd).Ctim
	}
	for begin := read(); compare(read(), begin) <= 0; {
	}
}

// sayChanges records which times of these objects f changes. A name "a>b" is an
// object that f moves from a to b.
func (p *probe) sayChanges(what string, names []string, f func()) {
	var before []unix.Stat_t
	for _, name := range names {
		from, _, _ := strings.Cut(name, ">")
		p.mustSucceed(p.set(from, old, oldM))
		before = append(before, p.lstat(from))
	}
	p.awaitTick()
	f()
	var seen []string
	for i, name := range names {
		from, to, moved := strings.Cut(name, ">")
		if !moved {
			to = from
		}
		seen = append(seen, from+" "+changedTimes(before[i], p.lstat(to)))
	}
	p.say("%s: %s", what, strings.Join(seen, ", "))
}

// changedTimes names the times that differ.
func changedTimes(a, b unix.Stat_t) string {
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
	p.makeFile("file", "content")
	p.sayChanges("read", []string{"file"}, func() { p.readAt(p.openFD("file", unix.O_RDONLY), 3, 0) })
	p.sayChanges("read again", []string{"file"}, func() { p.readAt(p.openFD("file", unix.O_RDONLY), 3, 0) })
}

func changeWrite(p *probe) {
	p.makeFile("file", "content")
	fd := p.openFD("file", unix.O_WRONLY)
	p.sayChanges("write", []string{"file", "."}, func() { p.writeAt(fd, "C", 0) })
	p.sayChanges("append", []string{"file", "."}, func() { p.writeAt(fd, "more", 7) })
	p.sayChanges("write and sync", []string{"file"}, func() {
		p.writeAt(fd, "M", 7)
		p.mustSucceed(unix.Fsync(fd))
	})
	p.sayChanges("sync", []string{"file"}, func() { p.mustSucceed(unix.Fsync(fd)) })
}

func changeWriteNothing(p *probe) {
	p.makeFile("file", "content")
	fd := p.openFD("file", unix.O_WRONLY)
	p.sayChanges("write", []string{"file"}, func() { p.writeAt(fd, "", 0) })
}

func changeTruncate(p *probe) {
	p.makeFile("file", "content")
	for _, n := range []int64{3, 3, 100, 0} {
		p.sayChanges(fmt.Sprintf("truncate to %d", n), []string{"file"}, func() {
			p.mustSucceed(unix.Truncate(p.pathOf("file"), n))
		})
	}
	fd := p.openFD("file", unix.O_RDWR)
	p.sayChanges("ftruncate to the same", []string{"file"}, func() { p.mustSucceed(unix.Ftruncate(fd, 0)) })
}

func changeOpen(p *probe) {
	p.makeFile("file", "content")
	p.sayChanges("open and close", []string{"file", "."}, func() { p.tryOpen("open", "file", unix.O_RDWR) })
	p.sayChanges("O_CREAT of what exists", []string{"file", "."}, func() { p.tryOpen("open", "file", unix.O_RDWR|unix.O_CREAT) })
	p.sayChanges("O_TRUNC", []string{"file", "."}, func() { p.tryOpen("open", "file", unix.O_RDWR|unix.O_TRUNC) })
	p.sayChanges("O_TRUNC of nothing", []string{"file"}, func() { p.tryOpen("open", "file", unix.O_RDWR|unix.O_TRUNC) })
}

func changeChmod(p *probe) {
	p.makeFile("file", "content")
	p.sayChanges("chmod", []string{"file", "."}, func() { p.mustSucceed(unix.Chmod(p.pathOf("file"), 0o600)) })
	p.sayChanges("chmod to the same", []string{"file"}, func() { p.mustSucceed(unix.Chmod(p.pathOf("file"), 0o600)) })
	p.sayChanges("chown to the same", []string{"file"}, func() {
		st := p.lstat("file")
		p.mustSucceed(unix.Chown(p.pathOf("file"), int(st.Uid), int(st.Gid)))
	})
	p.sayChanges("utimens", []string{"file"}, func() { p.mustSucceed(p.set("file", old, oldM)) })
}

func changeMapping(p *probe) {
	p.makeFile("file", "content")
	fd := p.openFD("file", unix.O_RDWR)
	m := p.mapFile(fd, 0, 7, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	p.sayChanges("write through a mapping, msync", []string{"file"}, func() {
		m[0] = 'C'
		p.mustSucceed(unix.Msync(m, unix.MS_SYNC))
	})
}
