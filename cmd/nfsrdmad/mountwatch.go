package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// watchMounts sends to the channel after each change of the host's mounts, until end is called. The
// channel is nil if the kernel does not report changes.
func watchMounts() (changes <-chan struct{}, end func()) {
	table, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, func() {}
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(table)
		return nil, func() {}
	}
	out, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for waitEvent(stop, table, -1) {
			select {
			case out <- struct{}{}:
			default: // the receiver has not read the list yet
			}
			if !waitEvent(stop, -1, mountsInterval) {
				return
			}
		}
	}()
	return out, func() {
		_, _ = unix.Write(stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // its counter cannot overflow
		<-ended
		unix.Close(stop)
		unix.Close(table)
	}
}

// mountsInterval is the time between two reports of changes: a host may start many containers, and
// reading a list of 10,000 mounts takes a tenth of it.
const mountsInterval = time.Second

// waitEvent waits for a change of table, or for a time unless it is negative. It returns false if
// stop has been written to.
func waitEvent(stop, table int, d time.Duration) bool {
	timeout := -1
	if d >= 0 {
		timeout = int(d.Milliseconds())
	}
	fds := []unix.PollFd{{Fd: int32(stop), Events: unix.POLLIN}, {Fd: int32(table), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(fds, timeout)
		if err != unix.EINTR {
			return err == nil && fds[0].Revents == 0
		}
	}
}
