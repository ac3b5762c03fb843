package posix

import "golang.org/x/sys/unix"

var flockCases = []Case{
	{"flock", anyone, flock},
	{"flock-shared", anyone, flockShared},
	{"flock-upgrade", anyone, flockUpgrade},
	{"flock-duplicated", anyone, flockDuplicated},
	{"flock-wait", anyone, flockWait},
	{"flock-reader", anyone, flockReader},
	{"flock-and-record", anyone, flockAndRecord},
}

const (
	lockNow  = unix.LOCK_EX | unix.LOCK_NB
	shareNow = unix.LOCK_SH | unix.LOCK_NB
)

func flock(p *probe) {
	p.file("f", "")
	a, b := p.fd("f", unix.O_RDWR), p.fd("f", unix.O_RDWR)
	p.result("one", unix.Flock(a, lockNow))
	p.result("two", unix.Flock(b, lockNow))
	p.result("two, shared", unix.Flock(b, shareNow))
	p.result("one again", unix.Flock(a, lockNow))
	p.result("unlock", unix.Flock(a, unix.LOCK_UN))
	p.result("two", unix.Flock(b, lockNow))
	p.result("unlock what is not locked", unix.Flock(a, unix.LOCK_UN))
}

func flockShared(p *probe) {
	p.file("f", "")
	a, b := p.fd("f", unix.O_RDWR), p.fd("f", unix.O_RDWR)
	c := p.fd("f", unix.O_RDWR)
	p.result("one", unix.Flock(a, shareNow))
	p.result("two", unix.Flock(b, shareNow))
	p.result("exclusive", unix.Flock(c, lockNow))
	p.need(unix.Flock(a, unix.LOCK_UN))
	p.result("exclusive", unix.Flock(c, lockNow))
	p.need(unix.Flock(b, unix.LOCK_UN))
	p.result("exclusive", unix.Flock(c, lockNow))
}

func flockUpgrade(p *probe) {
	p.file("f", "")
	a, b := p.fd("f", unix.O_RDWR), p.fd("f", unix.O_RDWR)
	p.need(unix.Flock(a, shareNow))
	p.result("upgrade", unix.Flock(a, lockNow))
	p.result("other", unix.Flock(b, shareNow))
	p.result("downgrade", unix.Flock(a, shareNow))
	p.result("other", unix.Flock(b, shareNow))
}

// A duplicate shares the lock; the last close releases it.
func flockDuplicated(p *probe) {
	p.file("f", "")
	a, err := unix.Open(p.at("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.need(err)
	b := p.fd("f", unix.O_RDWR)
	dup, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD_CLOEXEC, 0)
	p.need(err)
	p.need(unix.Flock(a, lockNow))
	p.result("by the duplicate", unix.Flock(dup, lockNow))
	p.need(unix.Close(a))
	p.result("one closed", unix.Flock(b, lockNow))
	p.need(unix.Close(dup))
	p.result("both closed", unix.Flock(b, lockNow))
}

func flockWait(p *probe) {
	p.file("f", "")
	a, b := p.fd("f", unix.O_RDWR), p.fd("f", unix.O_RDWR)
	p.need(unix.Flock(a, lockNow))
	got := make(chan error, 1)
	go func() { got <- patiently(func() error { return unix.Flock(b, unix.LOCK_EX) }) }()
	select {
	case err := <-got:
		p.result("did not wait", err)
	default:
	}
	p.need(unix.Flock(a, unix.LOCK_UN))
	p.result("waited", <-got)
}

// patiently repeats f after interruptions by signals, which the runtime sends.
func patiently(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func flockReader(p *probe) {
	p.file("f", "")
	p.result("exclusive, of a reader", unix.Flock(p.fd("f", unix.O_RDONLY), lockNow))
	p.mkdir("d")
	p.result("of a directory", unix.Flock(p.fd("d", unix.O_RDONLY), lockNow))
	p.result("and another", unix.Flock(p.fd("d", unix.O_RDONLY), lockNow))
}

func flockAndRecord(p *probe) {
	p.file("f", "")
	p.need(unix.Flock(p.fd("f", unix.O_RDWR), lockNow))
	p.another(func() { p.result("record lock", p.lock("f", unix.F_WRLCK, 0, 0)) })
}
