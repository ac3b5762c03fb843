package fusefs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	delegclient "github.com/nfsrdma/nfsrdma/delegation/client"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nlmclient"
	"golang.org/x/sys/unix"
)

// LookupCache selects the results of LOOKUP that the kernel caches (nfs(5),
// lookupcache).
type LookupCache int

// The values of LookupCache.
const (
	LookupAll      LookupCache = iota // names, and their absence
	LookupPositive                    // names
	LookupNone                        // nothing: each use of a name sends a LOOKUP
)

// A Config says which file system to mount, on which directory, and how.
type Config struct {
	// Client sends the calls, each with the credentials of the process that caused
	// it. FS is the file system to mount: its root handle, and its server's
	// transfer sizes.
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

	// RegMin to DirMax are the times for which attributes of files and directories
	// are cached: Min after a change, doubled whenever they prove unchanged, up to
	// Max (nfs(5), acregmin to acdirmax). 0 disables the caching.
	RegMin, RegMax, DirMin, DirMax time.Duration

	Lookup LookupCache

	// Held is the set of delegations (package delegation/client), which must have
	// been created with this package's Drop; nil means no delegations. Sync
	// disables it.
	Held *delegclient.Set

	// Locks takes programs' locks at the server; nil means that the kernel keeps
	// them on this host only. The creator must close it after the unmount.
	// LocalPOSIX and LocalFlock keep the locks of fcntl(2) and flock(2) on this
	// host only (nfs(5), local_lock).
	Locks                  *nlmclient.Client
	LocalPOSIX, LocalFlock bool

	// Up reports whether the server responds; nil means always. While the server
	// does not respond, calls of killed processes are canceled. Otherwise such a
	// call completes, although its process no longer waits.
	Up func() bool

	// Log receives errors that no program sees; nil means slog.Default.
	Log *slog.Logger
}

// applyDefaults checks c and sets defaults.
func (c *Config) applyDefaults() error {
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

// pollFile is a file that go-fuse presents in each root, for refusePoll.
const pollFile = ".go-fuse-epoll-hack"

// refusePoll makes the kernel ask once whether files can be polled, and remember
// that they cannot. A Go program polls whenever it opens a file, with all of its
// threads stopped. In the process that serves the mount, no thread would be left to
// reply.
func refusePoll(point string) error {
	fd, err := unix.Open(filepath.Join(point, pollFile), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // the request is enough
	return nil
}
