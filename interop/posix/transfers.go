package posix

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

var transferCases = []Case{
	{"data-large", anyone, dataLarge},
	{"data-too-large", anyone, dataTooLarge},
	{"data-sync", anyone, dataSync},
	{"data-copy-file-range", anyone, dataCopyFileRange},
	{"data-sendfile", anyone, dataSendfile},
	{"data-advice", anyone, dataAdvice},
}

func dataLarge(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	for _, off := range []int64{1<<31 - 3, 1<<32 - 3, 1 << 33, 1<<40 - 4} {
		p.write(fd, "across", off)
		p.size("f")
		p.say("%q", brief(p.read(fd, 10, off-2)))
	}
	p.need(unix.Fsync(fd))
	again := p.fd("f", unix.O_RDONLY)
	p.say("%q", brief(p.read(again, 10, 1<<32-3)))
	p.say("%q", brief(p.read(again, 10, 1<<32+10)))
	p.need(unix.Ftruncate(fd, 1<<32+1))
	p.size("f")
	p.say("%q", brief(p.read(again, 10, 1<<32-3)))
}

func dataTooLarge(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	_, err := unix.Pwrite(fd, []byte("xx"), math.MaxInt64-1)
	p.result("write", err)
	p.result("truncate", unix.Ftruncate(fd, -1))
	p.size("f")
}

func dataSync(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.write(fd, "content", 0)
	p.result("fsync", unix.Fsync(fd))
	p.result("fdatasync", unix.Fdatasync(fd))
	p.result("syncfs", unix.Syncfs(fd))
	p.result("range", unix.SyncFileRange(fd, 0, 7, unix.SYNC_FILE_RANGE_WRITE))
	p.result("of a reader", unix.Fsync(p.fd("f", unix.O_RDONLY)))
	p.holds("f")
}

func dataCopyFileRange(p *probe) {
	p.file("from", pattern(10000, 5))
	from, to := p.fd("from", unix.O_RDONLY), p.fd("to", unix.O_CREAT|unix.O_RDWR)
	in, out := int64(1000), int64(7)
	for left := 5000; left > 0; {
		n, err := unix.CopyFileRange(from, &in, to, &out, left, 0)
		if err != nil || n == 0 {
			p.result("copy", err)
			return
		}
		left -= n
	}
	p.size("to")
	p.say("the same: %v", p.read(to, 10000, 7) == pattern(10000, 5)[1000:6000])
	in = 20000
	n, err := unix.CopyFileRange(from, &in, to, &out, 10, 0)
	p.result("behind the end", err)
	p.say("%d bytes", n)
}

func dataSendfile(p *probe) {
	p.file("from", pattern(10000, 6))
	from, to := p.fd("from", unix.O_RDONLY), p.fd("to", unix.O_CREAT|unix.O_RDWR)
	for off := int64(0); off < 10000; {
		n, err := unix.Sendfile(to, from, &off, 10000)
		if err != nil || n == 0 {
			p.result("sendfile", err)
			return
		}
	}
	p.say("the same: %v", p.read(to, 20000, 0) == pattern(10000, 6))
}

func dataAdvice(p *probe) {
	p.file("f", pattern(10000, 7))
	fd := p.fd("f", unix.O_RDWR)
	for _, advice := range []int{unix.FADV_SEQUENTIAL, unix.FADV_RANDOM, unix.FADV_WILLNEED, unix.FADV_DONTNEED, unix.FADV_NORMAL} {
		p.result(fmt.Sprint(advice), unix.Fadvise(fd, 0, 0, advice))
	}
	p.say("sum %x", sum(p.read(fd, 10000, 0)))
}
