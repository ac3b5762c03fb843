package fusefs

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pollFile is a file of go-fuse's own in each root, for refusePoll.
const pollFile = ".go-fuse-epoll-hack"

// refusePoll makes the kernel ask once whether files can be polled, and believe
// from then on that they cannot. A Go program that opens a file asks just that,
// with all of its threads at a halt; in the process that serves the mount nobody
// would answer.
func refusePoll(point string) error {
	fd, err := unix.Open(filepath.Join(point, pollFile), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // asked is enough
	return nil
}
