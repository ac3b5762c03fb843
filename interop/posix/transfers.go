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
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	for _, off := range []int64{1<<31 - 3, 1<<32 - 3, 1 << 33, 1<<40 - 4} {
		p.writeAt(fd, "across", off)
		p.saySize("f")
		p.say("%q", showBytes(p.readAt(fd, 10, off-2)))
	}
	p.mustSucceed(unix.Fsync(fd))
	again := p.openFD("f", unix.O_RDONLY)
	p.say("%q", showBytes(p.readAt(again, 10, 1<<32-3)))
	p.say("%q", showBytes(p.readAt(again, 10, 1<<32+10)))
	p.mustSucceed(unix.Ftruncate(fd, 1<<32+1))
	p.saySize("f")
	p.say("%q", showBytes(p.readAt(again, 10, 1<<32-3)))
}

func dataTooLarge(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	_, err := unix.Pwrite(fd, []byte("xx"), math.MaxInt64-1)
	p.sayError("write", err)
	p.sayError("truncate", unix.Ftruncate(fd, -1))
	p.saySize("f")
}

func dataSync(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.writeAt(fd, "content", 0)
	p.sayError("fsync", unix.Fsync(fd))
	p.sayError("fdatasync", unix.Fdatasync(fd))
	p.sayError("syncfs", unix.Syncfs(fd))
	p.sayError("range", unix.SyncFileRange(fd, 0, 7, unix.SYNC_FILE_RANGE_WRITE))
	p.sayError("of a reader", unix.Fsync(p.openFD("f", unix.O_RDONLY)))
	p.sayContent("f")
}

func dataCopyFileRange(p *probe) {
	p.makeFile("from", makePattern(10000, 5))
	from, to := p.openFD("from", unix.O_RDONLY), p.openFD("to", unix.O_CREAT|unix.O_RDWR)
	in, out := int64(1000), int64(7)
	for left := 5000; left > 0; {
		n, err := unix.CopyFileRange(from, &in, to, &out, left, 0)
		if err != nil || n == 0 {
			p.sayError("copy", err)
			return
		}
		left -= n
	}
	p.saySize("to")
	p.say("the same: %v", p.readAt(to, 10000, 7) == makePattern(10000, 5)[1000:6000])
	in = 20000
	n, err := unix.CopyFileRange(from, &in, to, &out, 10, 0)
	p.sayError("behind the end", err)
	p.say("%d bytes", n)
}

func dataSendfile(p *probe) {
	p.makeFile("from", makePattern(10000, 6))
	from, to := p.openFD("from", unix.O_RDONLY), p.openFD("to", unix.O_CREAT|unix.O_RDWR)
	for off := int64(0); off < 10000; {
		n, err := unix.Sendfile(to, from, &off, 10000)
		if err != nil || n == 0 {
			p.sayError("sendfile", err)
			return
		}
	}
	p.say("the same: %v", p.readAt(to, 20000, 0) == makePattern(10000, 6))
}

func dataAdvice(p *probe) {
	p.makeFile("f", makePattern(10000, 7))
	fd := p.openFD("f", unix.O_RDWR)
	for _, advice := range []int{unix.FADV_SEQUENTIAL, unix.FADV_RANDOM, unix.FADV_WILLNEED, unix.FADV_DONTNEED, unix.FADV_NORMAL} {
		p.sayError(fmt.Sprint(advice), unix.Fadvise(fd, 0, 0, advice))
	}
	p.say("sum %x", checksum(p.readAt(fd, 10000, 0)))
}
