package posix

import "golang.org/x/sys/unix"

var spaceCases = []Case{
	{"fallocate", anyone, fallocate},
	{"fallocate-keep-size", anyone, fallocateKeepSize},
	{"fallocate-punch-hole", anyone, fallocatePunchHole},
	{"fallocate-wrong", anyone, fallocateWrong},
	{"statfs", anyone, statfs},
	{"statfs-space", anyone, statfsSpace},
}

func fallocate(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.sayError("fallocate", unix.Fallocate(fd, 0, 10, 10000))
	p.saySize("f")
}

func fallocateKeepSize(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.sayError("fallocate", unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 10000))
	p.saySize("f")
}

func fallocatePunchHole(p *probe) {
	p.makeFile("f", makePattern(20000, 1))
	fd := p.openFD("f", unix.O_RDWR)
	err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 5000, 10000)
	p.sayError("punch", err)
	p.say("a hole: %v", showBytes(p.readAt(fd, 10000, 5000)) == "[10000 zeros]")
	p.saySize("f")
}

func fallocateWrong(p *probe) {
	p.makeFile("f", "")
	p.sayError("of a reader", unix.Fallocate(p.openFD("f", unix.O_RDONLY), 0, 0, 10))
	p.sayError("of nothing", unix.Fallocate(p.openFD("f", unix.O_RDWR), 0, 0, 0))
}

func statfs(p *probe) {
	var byName, byFD unix.Statfs_t
	p.sayError("by name", unix.Statfs(p.dir, &byName))
	p.sayError("by descriptor", unix.Fstatfs(p.openSelf(), &byFD))
	p.say("longest name %d", byName.Namelen)
	p.say("blocks of some size: %v", byName.Bsize > 0 && byName.Frsize > 0)
	p.say("free is at most all: %v", byName.Bfree <= byName.Blocks && byName.Bavail <= byName.Bfree && byName.Ffree <= byName.Files)
	p.say("some of each: %v", byName.Blocks > 0 && byName.Files > 0)
	p.say("the same size: %v", byName.Blocks == byFD.Blocks && byName.Bsize == byFD.Bsize)
	p.sayError("missing", unix.Statfs(p.pathOf("none"), &byName))
}

func statfsSpace(p *probe) {
	free := func() uint64 {
		var s unix.Statfs_t
		p.mustSucceed(unix.Statfs(p.dir, &s))
		return s.Bfree * uint64(s.Frsize)
	}
	// Other programs may free as much at the same time, but hardly each time.
	less := false
	for try := 0; try < 5 && !less; try++ {
		before := free()
		fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR|unix.O_TRUNC)
		p.writeAt(fd, makePattern(4<<20, 1), 0)
		p.mustSucceed(unix.Fsync(fd))
		after := free()
		less = after < before && before-after >= 3<<20
		p.mustSucceed(unix.Ftruncate(fd, 0))
		p.mustSucceed(unix.Fsync(fd))
	}
	p.say("less than before: %v", less)
}
