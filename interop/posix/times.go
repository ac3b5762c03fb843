package posix

import "golang.org/x/sys/unix"

var timeCases = []Case{
	{"times-nanoseconds", anyone, timesNanoseconds},
	{"times-now", anyone, timesNow},
	{"times-omit", anyone, timesOmit},
	{"times-symlink", anyone, timesSymlink},
	{"times-dir", anyone, timesDir},
	{"times-descriptor", anyone, timesDescriptor},
	{"times-range", anyone, timesRange},
	{"times-wrong", anyone, timesWrong},
	{"times-by-user", root, timesByUser},
	{"times-of-open-file", anyone, timesOfOpenFile},
}

// seconds returns a time without a fraction.
func seconds(n int64) unix.Timespec { return unix.NsecToTimespec(n * 1e9) }

// set sets the object's times.
func (p *probe) set(name string, atime, mtime unix.Timespec) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, p.pathOf(name), []unix.Timespec{atime, mtime}, unix.AT_SYMLINK_NOFOLLOW)
}

// times records both times.
func (p *probe) times(name string) {
	st := p.lstat(name)
	p.say("times of %s: %d.%09d %d.%09d", name, st.Atim.Sec, st.Atim.Nsec, st.Mtim.Sec, st.Mtim.Nsec)
}

var (
	now  = unix.Timespec{Nsec: unix.UTIME_NOW}
	omit = unix.Timespec{Nsec: unix.UTIME_OMIT}
	old  = unix.NsecToTimespec(1234567890_123456789)
	oldM = unix.NsecToTimespec(1234567891_987654321)
)

func timesNanoseconds(p *probe) {
	p.makeFile("file", "x")
	p.sayError("set", p.set("file", old, oldM))
	p.times("file")
	p.mustSucceed(p.set("file", unix.NsecToTimespec(1_999999999), unix.NsecToTimespec(2_000000001)))
	p.times("file")
}

// recent reports whether a time is roughly today's.
func recent(t unix.Timespec) bool { return int64(t.Sec) > 1_600_000_000 }

func timesNow(p *probe) {
	p.makeFile("file", "x")
	p.mustSucceed(p.set("file", old, oldM))
	p.sayError("set", p.set("file", now, now))
	st := p.lstat("file")
	p.say("now: %v %v, the same: %v", recent(st.Atim), recent(st.Mtim), st.Atim == st.Mtim)
	p.say("not after the change: %v", compare(st.Mtim, st.Ctim) <= 0)
}

func timesOmit(p *probe) {
	p.makeFile("file", "x")
	p.mustSucceed(p.set("file", old, oldM))
	p.sayError("atime alone", p.set("file", seconds(5), omit))
	p.times("file")
	p.sayError("mtime alone", p.set("file", omit, seconds(6)))
	p.times("file")
	p.sayError("neither", p.set("file", omit, omit))
	p.times("file")
	p.sayError("mtime now", p.set("file", omit, now))
	st := p.lstat("file")
	p.say("atime %d, mtime now: %v", st.Atim.Sec, recent(st.Mtim))
}

func timesSymlink(p *probe) {
	p.makeFile("file", "x")
	p.mustSucceed(unix.Symlink("file", p.pathOf("symlink")))
	p.mustSucceed(p.set("file", seconds(1), seconds(2)))
	p.sayError("of the link", p.set("symlink", seconds(3), seconds(4)))
	st := p.lstat("symlink")
	p.say("mtime of the link: %d", st.Mtim.Sec) // following the link changes its atime
	p.times("file")
	p.sayError("through it", unix.UtimesNanoAt(unix.AT_FDCWD, p.pathOf("symlink"), []unix.Timespec{seconds(5), seconds(6)}, 0))
	p.times("file")
}

func timesDir(p *probe) {
	p.makeDir("dir")
	p.sayError("set", p.set("dir", old, oldM))
	p.times("dir")
}

func timesDescriptor(p *probe) {
	p.makeFile("file", "x")
	fd := p.openFD("file", unix.O_RDONLY)
	p.sayError("set", unix.Futimes(fd, []unix.Timeval{{Sec: 7, Usec: 8}, {Sec: 9, Usec: 10}}))
	p.times("file")
}

func timesRange(p *probe) {
	p.makeFile("file", "x")
	for _, s := range []int64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		p.sayError("set", p.set("file", seconds(s), seconds(s)))
		p.times("file")
	}
	p.sayError("1969", p.set("file", seconds(-1), seconds(-1)))
	p.times("file")
	p.sayError("2106", p.set("file", seconds(1<<32), seconds(1<<32)))
	p.times("file")
}

func timesWrong(p *probe) {
	p.makeFile("file", "x")
	p.sayError("missing", p.set("none", now, now))
	p.sayError("too many nanoseconds", p.set("file", unix.Timespec{Nsec: 1e9}, now))
}

// Write permission is enough to set times to now.
func timesByUser(p *probe) {
	p.makeOwned("mine", user, group, 0o400)
	p.makeOwned("writable", 0, 0, 0o666)
	p.makeOwned("readable", 0, 0, 0o644)
	p.runAs(user, group, nil, func() {
		for _, name := range []string{"mine", "writable", "readable"} {
			p.sayError(name+" now", p.set(name, now, now))
			p.sayError(name+" then", p.set(name, old, oldM))
			p.sayError(name+" one now", p.set(name, now, omit))
		}
	})
}

// Times set on a written open file remain after the close.
func timesOfOpenFile(p *probe) {
	fd, err := unix.Open(p.pathOf("file"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	p.mustSucceed(err)
	p.writeAt(fd, "written", 0)
	p.mustSucceed(p.set("file", old, oldM))
	p.times("file")
	p.writeAt(fd, "W", 0)
	p.say("a write changes mtime: %v", recent(p.fstat(fd).Mtim))
	p.mustSucceed(p.set("file", old, oldM))
	p.mustSucceed(unix.Fsync(fd))
	p.mustSucceed(unix.Close(fd))
	p.times("file")
}

func compare(a, b unix.Timespec) int64 {
	return unix.TimespecToNsec(a) - unix.TimespecToNsec(b)
}
