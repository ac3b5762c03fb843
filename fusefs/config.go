package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/lockclient"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// LookupCache selects the results of LOOKUP that the kernel caches (nfs(5),
// lookupcache).
type LookupCache int

// The values of LookupCache.
const (
	LookupAll      LookupCache = iota // names, and their absence
	LookupPositive                    // names
	LookupNone                        // nothing: each use of a name asks the server
)

// A Config says which file system to mount, on which directory, and how.
type Config struct {
	// Client makes the calls, each with the credentials of the process that
	// caused it. FS is the file system to mount: its root handle, and the sizes
	// of its server's calls.
	Client *nfsclient.Client
	FS     *nfsclient.FS

	Source string // source in df and /proc/mounts: "server:/export"
	Point  string // the directory to mount on

	ReadOnly, NoSUID, NoDev, NoExec bool

	// AllowOther serves all users of the host, not only the mounting user.
	// Direct implies it.
	AllowOther bool

	// Direct mounts with mount(2), which requires root. Otherwise fusermount3
	// mounts.
	Direct bool

	// Sync disables the caching of attributes and the delay of writes (nfs(5),
	// noac).
	Sync bool

	// RegMin to DirMax are how long attributes of files and of directories are
	// believed: Min after a change, doubled whenever they prove unchanged, up
	// to Max (nfs(5), acregmin to acdirmax). 0 means not at all.
	RegMin, RegMax, DirMin, DirMax time.Duration

	Lookup LookupCache

	// Held is the set of delegations (package delegation/client), which must
	// have been made with the Drop of this package; nil means no delegations.
	// Sync disables it.
	Held *delegclient.Set

	// Locks keeps the locks of programs at the server; nil means that they hold
	// on this host only, by the kernel. The creator must close it after the end
	// of the mount. LocalPOSIX and LocalFlock make the locks of fcntl(2) and of
	// flock(2) hold on this host only (nfs(5), local_lock).
	Locks                  *lockclient.Client
	LocalPOSIX, LocalFlock bool

	// Up reports whether the server answers; nil means always. While the server
	// does not answer, calls of killed processes are canceled. Otherwise such a
	// call runs to its end, although its process no longer waits.
	Up func() bool

	// Log gets errors that no program sees; nil means slog.Default.
	Log *slog.Logger
}

// fill checks c and sets defaults.
func (c *Config) fill() error {
	switch {
	case c.Client == nil || c.FS == nil:
		return errors.New("fusefs: Config.Client and Config.FS must be set")
	case c.Point == "":
		return errors.New("fusefs: Config.Point must name the mount point")
	case c.RegMin < 0 || c.RegMax < c.RegMin:
		return fmt.Errorf("acregmin=%v, acregmax=%v: the second must not be shorter", c.RegMin, c.RegMax)
	case c.DirMin < 0 || c.DirMax < c.DirMin:
		return fmt.Errorf("acdirmin=%v, acdirmax=%v: the second must not be shorter", c.DirMin, c.DirMax)
	}
	point, err := filepath.Abs(c.Point)
	if err != nil {
		return err
	}
	c.Point = point
	if c.Sync {
		c.RegMin, c.RegMax, c.DirMin, c.DirMax = 0, 0, 0, 0
		c.Held = nil
	}
	if c.Up == nil {
		c.Up = func() bool { return true }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// pollFile is a file that go-fuse has in each root, for refusePoll.
const pollFile = ".go-fuse-epoll-hack"

// refusePoll makes the kernel ask once whether files can be polled, and believe
// from then on that they cannot. A Go program asks this whenever it opens a
// file, with all of its threads stopped. In the process that serves the mount,
// no thread would be left to answer.
func refusePoll(point string) error {
	fd, err := unix.Open(filepath.Join(point, pollFile), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // asking is enough
	return nil
}
