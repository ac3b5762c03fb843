package posix

import "golang.org/x/sys/unix"

var holeCases = []Case{
	{"hole-read", anyone, holeRead},
	{"hole-blocks", anyone, holeBlocks},
	{"hole-seek", anyone, holeSeek},
	{"hole-seek-full", anyone, holeSeekFull},
	{"hole-seek-end", anyone, holeSeekEnd},
	{"hole-filled", anyone, holeFilled},
}

func holeRead(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.writeAt(fd, "begin", 3)
	p.writeAt(fd, "middle", 10000)
	p.writeAt(fd, "end", 123456)
	p.saySize("f")
	p.say("%q", showBytes(p.readAt(fd, 200000, 0)))
	p.mustSucceed(unix.Fsync(fd))
	p.say("%q", showBytes(p.readAt(p.openFD("f", unix.O_RDONLY), 200000, 0)))
}

func holeBlocks(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.writeAt(fd, "end", 1<<30)
	p.mustSucceed(unix.Fsync(fd))
	p.say("fewer blocks than bytes: %v", p.fstat(fd).Blocks*512 < 1<<20)
	p.makeFile("full", makePattern(100000, 1))
	p.say("enough blocks: %v", p.lstat("full").Blocks*512 >= 100000)
}

const (
	seekData = 3
	seekHole = 4
)

// makeSparse creates a file with a 1 MiB hole, 1 MiB data, and another 1 MiB hole.
func (p *probe) makeSparse() int {
	const mib = 1 << 20
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.mustSucceed(unix.Ftruncate(fd, 3*mib))
	p.writeAt(fd, makePattern(mib, 2), mib)
	p.mustSucceed(unix.Fsync(fd))
	return fd
}

func (p *probe) saySeek(fd int, off int64, whence int) {
	at, err := unix.Seek(fd, off, whence)
	p.say("seek %d from %d: %d %s", whence, off, at, errorName(err))
}

func holeSeek(p *probe) {
	fd := p.makeSparse()
	p.saySeek(fd, 0, seekData)
	p.saySeek(fd, 0, seekHole)
	p.saySeek(fd, 1<<20+5, seekData)
	p.saySeek(fd, 1<<20+5, seekHole)
	p.saySeek(fd, 2<<20, seekData)
	p.saySeek(fd, 2<<20, seekHole)
}

func holeSeekFull(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDONLY)
	p.saySeek(fd, 0, seekData)
	p.saySeek(fd, 0, seekHole)
	p.saySeek(fd, 3, seekData)
	p.saySeek(fd, 3, seekHole)
}

func holeSeekEnd(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDONLY)
	for _, off := range []int64{7, 8, -1} {
		p.saySeek(fd, off, seekData)
		p.saySeek(fd, off, seekHole)
	}
}

func holeFilled(p *probe) {
	fd := p.makeSparse()
	p.writeAt(fd, makePattern(100, 3), 500)
	p.say("%q zeros before and after", showBytes(p.readAt(fd, 500, 0))+showBytes(p.readAt(fd, 100, 600)))
	p.say("as written: %v", p.readAt(fd, 100, 500) == makePattern(100, 3))
	p.saySize("f")
}
