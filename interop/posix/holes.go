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
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.write(fd, "begin", 3)
	p.write(fd, "middle", 10000)
	p.write(fd, "end", 123456)
	p.size("f")
	p.say("%q", brief(p.read(fd, 200000, 0)))
	p.need(unix.Fsync(fd))
	p.say("%q", brief(p.read(p.fd("f", unix.O_RDONLY), 200000, 0)))
}

func holeBlocks(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.write(fd, "end", 1<<30)
	p.need(unix.Fsync(fd))
	p.say("fewer blocks than bytes: %v", p.fstat(fd).Blocks*512 < 1<<20)
	p.file("full", pattern(100000, 1))
	p.say("enough blocks: %v", p.status("full").Blocks*512 >= 100000)
}

const (
	seekData = 3
	seekHole = 4
)

// sparse makes a file of 1 MiB of hole, one of data, and one of hole.
func (p *probe) sparse() int {
	const mib = 1 << 20
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.need(unix.Ftruncate(fd, 3*mib))
	p.write(fd, pattern(mib, 2), mib)
	p.need(unix.Fsync(fd))
	return fd
}

func (p *probe) seek(fd int, off int64, whence int) {
	at, err := unix.Seek(fd, off, whence)
	p.say("seek %d from %d: %d %s", whence, off, at, word(err))
}

func holeSeek(p *probe) {
	fd := p.sparse()
	p.seek(fd, 0, seekData)
	p.seek(fd, 0, seekHole)
	p.seek(fd, 1<<20+5, seekData)
	p.seek(fd, 1<<20+5, seekHole)
	p.seek(fd, 2<<20, seekData)
	p.seek(fd, 2<<20, seekHole)
}

func holeSeekFull(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDONLY)
	p.seek(fd, 0, seekData)
	p.seek(fd, 0, seekHole)
	p.seek(fd, 3, seekData)
	p.seek(fd, 3, seekHole)
}

func holeSeekEnd(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDONLY)
	for _, off := range []int64{7, 8, -1} {
		p.seek(fd, off, seekData)
		p.seek(fd, off, seekHole)
	}
}

func holeFilled(p *probe) {
	fd := p.sparse()
	p.write(fd, pattern(100, 3), 500)
	p.say("%q zeros before and after", brief(p.read(fd, 500, 0))+brief(p.read(fd, 100, 600)))
	p.say("as written: %v", p.read(fd, 100, 500) == pattern(100, 3))
	p.size("f")
}
