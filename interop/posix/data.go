package posix

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"
)

var dataCases = []Case{
	{"data-odd-offsets", anyone, dataOddOffsets},
	{"data-overwrite", anyone, dataOverwrite},
	{"data-end", anyone, dataEnd},
	{"data-small-pieces", anyone, dataSmallPieces},
	{"data-backwards", anyone, dataBackwards},
	{"data-vectors", anyone, dataVectors},
	{"data-two-descriptors", anyone, dataTwoDescriptors},
	{"data-size-at-once", anyone, dataSizeAtOnce},
	{"data-nothing", anyone, dataNothing},
	{"data-seek", anyone, dataSeek},
	{"data-large", anyone, dataLarge},
	{"data-too-large", anyone, dataTooLarge},
	{"data-sync", anyone, dataSync},
	{"data-copy-file-range", anyone, dataCopyFileRange},
	{"data-sendfile", anyone, dataSendfile},
	{"data-advice", anyone, dataAdvice},
	{"truncate-down", anyone, truncateDown},
	{"truncate-up", anyone, truncateUp},
	{"truncate-down-and-up", anyone, truncateDownAndUp},
	{"truncate-wrong", anyone, truncateWrong},
	{"truncate-written", anyone, truncateWritten},
}

// pattern is n octets, none of which is zero and which do not repeat by the page.
func pattern(n int, seed int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + (i*7+i/251+seed)%255)
	}
	return string(b)
}

// sum is a number that differs for different content.
func sum(s string) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(s) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

func dataOddOffsets(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	want := []byte(pattern(70001, 1))
	p.write(fd, string(want), 0)
	for i, off := range []int{1, 4095, 4096, 4097, 8191, 33333, 65535, 69990} {
		piece := pattern(11+i*3, i)
		piece = piece[:min(len(piece), len(want)-off)]
		copy(want[off:], piece)
		p.write(fd, piece, int64(off))
	}
	p.say("the same: %v", p.read(fd, 80000, 0) == string(want))
	for _, off := range []int{3, 4093, 65533, 69999, 70001} {
		got := p.read(fd, 17, int64(off))
		p.say("%d from %d: %v", len(got), off, strings.HasPrefix(string(want[off:]), got))
	}
	p.need(unix.Fsync(fd))
	p.say("the same: %v", p.read(p.fd("f", unix.O_RDONLY), 80000, 0) == string(want))
}

func dataOverwrite(p *probe) {
	p.file("f", "0123456789")
	fd := p.fd("f", unix.O_RDWR)
	p.write(fd, "abc", 3)
	p.holds("f")
	p.write(fd, "XYZ!", 8)
	p.holds("f")
}

func dataEnd(p *probe) {
	p.file("f", "0123456789")
	fd := p.fd("f", unix.O_RDONLY)
	for _, off := range []int64{8, 10, 11, 1 << 40} {
		p.say("from %d: %q", off, p.read(fd, 5, off))
	}
}

func dataSmallPieces(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_WRONLY)
	want := pattern(5000, 3)
	for off := 0; off < len(want); off += 13 {
		_, err := unix.Write(fd, []byte(want[off:min(off+13, len(want))]))
		p.need(err)
	}
	p.size("f")
	p.say("the same: %v", p.read(p.fd("f", unix.O_RDONLY), 6000, 0) == want)
}

func dataBackwards(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_WRONLY)
	want := pattern(10000, 4)
	for off := len(want) - 100; off >= 0; off -= 100 {
		p.write(fd, want[off:off+100], int64(off))
	}
	p.say("the same: %v", p.read(p.fd("f", unix.O_RDONLY), 20000, 0) == want)
}

func dataVectors(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	n, err := unix.Writev(fd, [][]byte{[]byte("one "), nil, []byte("two "), []byte("three")})
	p.result("writev", err)
	p.say("%d octets", n)
	a, b := make([]byte, 6), make([]byte, 100)
	n, err = unix.Preadv(fd, [][]byte{a, b}, 1)
	p.result("preadv", err)
	p.say("%d octets: %q %q", n, a, b[:n-6])
}

func dataTwoDescriptors(p *probe) {
	a, b := p.fd("f", unix.O_CREAT|unix.O_RDWR), p.fd("f", unix.O_RDWR)
	p.write(a, "hello", 0)
	p.say("%q", p.read(b, 10, 0))
	p.write(b, "HELL", 0)
	p.say("%q", p.read(a, 10, 0))
	p.need(unix.Ftruncate(a, 2))
	p.say("%q", p.read(b, 10, 0))
	p.write(b, "end", 5)
	p.say("%q", brief(p.read(a, 10, 0)))
}

// Whoever asks, the size is right at once, written back or not.
func dataSizeAtOnce(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_WRONLY)
	for i := range int64(5) {
		p.write(fd, "12345", 1000*i)
		p.say("size %d, by name %d", p.fstat(fd).Size, p.status("f").Size)
	}
}

func dataNothing(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDWR)
	n, err := unix.Pwrite(fd, nil, 100)
	p.result("write", err)
	p.say("%d octets", n)
	p.size("f")
	n, err = unix.Pread(fd, nil, 0)
	p.result("read", err)
	p.say("%d octets", n)
}

func dataSeek(p *probe) {
	p.file("f", "0123456789")
	fd := p.fd("f", unix.O_RDWR)
	for _, s := range []struct {
		off    int64
		whence int
	}{{3, 0}, {2, 1}, {-1, 2}, {100, 2}, {-200, 1}, {-1, 0}, {0, 9}, {1 << 40, 0}} {
		at, err := unix.Seek(fd, s.off, s.whence)
		p.say("seek %d %d: %d %s", s.off, s.whence, at, word(err))
	}
	_, err := unix.Seek(fd, 15, 0)
	p.need(err)
	_, err = unix.Write(fd, []byte("x"))
	p.need(err)
	p.say("%q", brief(p.read(fd, 20, 0)))
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
	p.say("%d octets", n)
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

func truncateDown(p *probe) {
	p.file("f", "0123456789")
	p.result("truncate", unix.Truncate(p.at("f"), 4))
	p.holds("f")
	p.result("ftruncate", unix.Ftruncate(p.fd("f", unix.O_RDWR), 2))
	p.holds("f")
	p.result("to nothing", unix.Truncate(p.at("f"), 0))
	p.holds("f")
}

func truncateUp(p *probe) {
	p.file("f", "01234")
	p.result("truncate", unix.Truncate(p.at("f"), 9000))
	p.size("f")
	fd := p.fd("f", unix.O_RDWR)
	p.say("%q", brief(p.read(fd, 10000, 0)))
	p.write(fd, "end", 9000)
	p.say("%q", brief(p.read(fd, 10000, 0)))
}

// What was cut off does not come back.
func truncateDownAndUp(p *probe) {
	p.file("f", strings.Repeat("x", 9000))
	fd := p.fd("f", unix.O_RDWR)
	p.read(fd, 9000, 0)
	p.need(unix.Ftruncate(fd, 5000))
	p.need(unix.Ftruncate(fd, 9000))
	p.say("%d zeros", strings.Count(p.read(fd, 9000, 0), "\x00"))
	p.write(fd, "y", 8000)
	p.need(unix.Fsync(fd))
	p.say("%d zeros", strings.Count(p.read(p.fd("f", unix.O_RDONLY), 9000, 0), "\x00"))
}

func truncateWrong(p *probe) {
	p.file("f", "x")
	p.mkdir("d")
	p.result("below zero", unix.Truncate(p.at("f"), -1))
	p.result("a directory", unix.Truncate(p.at("d"), 0))
	p.result("missing", unix.Truncate(p.at("none"), 0))
	p.result("below a file", unix.Truncate(p.at("f/x"), 0))
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	p.result("a pipe", unix.Truncate(p.at("fifo"), 0))
}

// Truncation comes after what was written before it.
func truncateWritten(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.write(fd, pattern(20000, 8), 0)
	p.need(unix.Truncate(p.at("f"), 10000))
	p.size("f")
	p.write(fd, "tail", 10000)
	p.need(unix.Fsync(fd))
	p.size("f")
	p.say("the same: %v", p.read(p.fd("f", unix.O_RDONLY), 20000, 0) == pattern(20000, 8)[:10000]+"tail")
}
