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
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.result("fallocate", unix.Fallocate(fd, 0, 10, 10000))
	p.size("f")
}

func fallocateKeepSize(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.result("fallocate", unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 10000))
	p.size("f")
}

func fallocatePunchHole(p *probe) {
	p.file("f", pattern(20000, 1))
	fd := p.fd("f", unix.O_RDWR)
	err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 5000, 10000)
	p.result("punch", err)
	p.say("a hole: %v", brief(p.read(fd, 10000, 5000)) == "[10000 zeros]")
	p.size("f")
}

func fallocateWrong(p *probe) {
	p.file("f", "")
	p.result("of a reader", unix.Fallocate(p.fd("f", unix.O_RDONLY), 0, 0, 10))
	p.result("of nothing", unix.Fallocate(p.fd("f", unix.O_RDWR), 0, 0, 0))
}

func statfs(p *probe) {
	var byName, byFD unix.Statfs_t
	p.result("by name", unix.Statfs(p.dir, &byName))
	p.result("by descriptor", unix.Fstatfs(p.self(), &byFD))
	p.say("longest name %d", byName.Namelen)
	p.say("blocks of some size: %v", byName.Bsize > 0 && byName.Frsize > 0)
	p.say("free is at most all: %v", byName.Bfree <= byName.Blocks && byName.Bavail <= byName.Bfree && byName.Ffree <= byName.Files)
	p.say("some of each: %v", byName.Blocks > 0 && byName.Files > 0)
	p.say("the same size: %v", byName.Blocks == byFD.Blocks && byName.Bsize == byFD.Bsize)
	p.result("missing", unix.Statfs(p.at("none"), &byName))
}

func statfsSpace(p *probe) {
	free := func() uint64 {
		var s unix.Statfs_t
		p.need(unix.Statfs(p.dir, &s))
		return s.Bfree * uint64(s.Frsize)
	}
	// Other programs may free as much at the same time, but hardly each time.
	less := false
	for try := 0; try < 5 && !less; try++ {
		before := free()
		fd := p.fd("f", unix.O_CREAT|unix.O_RDWR|unix.O_TRUNC)
		p.write(fd, pattern(4<<20, 1), 0)
		p.need(unix.Fsync(fd))
		after := free()
		less = after < before && before-after >= 3<<20
		p.need(unix.Ftruncate(fd, 0))
		p.need(unix.Fsync(fd))
	}
	p.say("less than before: %v", less)
}
