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
	"golang.org/x/sys/unix"
)

// LookupCache is which results of LOOKUP the kernel keeps (nfs(5),
// lookupcache).
type LookupCache int

// The values of LookupCache.
const (
	LookupAll      LookupCache = iota // names, and that there is none
	LookupPositive                    // names
	LookupNone                        // nothing: each use of a name asks the server
)

// A Config is what is mounted, where and how.
type Config struct {
	// Client makes the calls, each in the name of who caused it, and FS is
	// what is mounted: its root, and the sizes of its server's calls.
	Client *nfsclient.Client
	FS     *nfsclient.FS

	Source string // what df and /proc/mounts show: "server:/export"
	Point  string // the directory to mount on

	ReadOnly, NoSUID, NoDev, NoExec bool

	// AllowOther serves all users of the host, not only the one who
	// mounts. It is implied where root mounts with Direct.
	AllowOther bool

	// Direct mounts by mount(2), which takes root; else fusermount3 does.
	Direct bool

	// Sync keeps no attributes and no data back (nfs(5), noac).
	Sync bool

	// How long attributes are believed, of files and of directories: Min
	// after a change, twice as long each time that they have not changed,
	// Max at last (nfs(5), acregmin to acdirmax). 0 is not at all.
	RegMin, RegMax, DirMin, DirMax time.Duration

	Lookup LookupCache

	// Held is what is held of the server's objects (package delegation/client), whose
	// Drop must be this package's; nil means nothing. With Sync it is not
	// used.
	Held *delegclient.Set

	// Up tells whether the server answers; nil means always. While it does
	// not, the calls of killed processes are given up, and else left alone when
	// these stop waiting.
	Up func() bool

	// Log gets what nobody else is told; nil means slog.Default.
	Log *slog.Logger
}

// fill checks c and fills in what it leaves open.
func (c *Config) fill() error {
	switch {
	case c.Client == nil || c.FS == nil:
		return errors.New("fusefs: Client and FS must be given")
	case c.Point == "":
		return errors.New("no mount point given")
	case c.RegMin < 0 || c.RegMax < c.RegMin:
		return fmt.Errorf("acregmin=%v, acregmax=%v: the second must not be the shorter one", c.RegMin, c.RegMax)
	case c.DirMin < 0 || c.DirMax < c.DirMin:
		return fmt.Errorf("acdirmin=%v, acdirmax=%v: the second must not be the shorter one", c.DirMin, c.DirMax)
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
