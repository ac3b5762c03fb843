package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// A Client is a host that is to mount from servers. NewClient fills in the fields that
// tests replace.
type Client struct {
	device   string // of FUSE
	status   string // file with this process's capabilities
	uid      int
	patience time.Duration // with a mount
	limit    func() (files uint64, err error)
	clock    func() (state int, err error)
}

// NewClient returns this host.
func NewClient() *Client {
	return &Client{
		device: "/dev/fuse", status: "/proc/self/status", uid: os.Geteuid(), patience: patience,
		limit: OpenFiles, clock: clock,
	}
}

// Examine makes all checks of this host alone, as the user of this process.
func (c *Client) Examine(ctx context.Context) []Finding {
	list := []Finding{c.fuse(), limitOf(c.limit, clientFiles, "each connection takes one"), clockOf(c.clock)}
	return append(list, c.mounts(ctx)...)
}

// clientFiles is enough for the connections of mounts.
const clientFiles = 256

// fuse sees whether this user can mount.
func (c *Client) fuse() Finding {
	f, err := os.OpenFile(c.device, os.O_RDWR, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return Finding{"fuse", Fail, c.device + " is missing, and with it mounts", "modprobe fuse, or give the container the device (--device /dev/fuse)"}
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return Finding{"fuse", Fail, "the kernel has no FUSE, and thus no mounts", "modprobe fuse"}
	case err != nil:
		return Finding{"fuse", Fail, fmt.Sprintf("no mounts: %v", err), "chmod 0666 " + c.device + ", or give the container the device (--device /dev/fuse)"}
	}
	f.Close()
	if c.uid != 0 {
		return helper()
	}
	if set, err := capabilities(c.status); err == nil && set&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return Finding{"fuse", Fail, "root cannot mount without CAP_SYS_ADMIN", "give the container the capability (--cap-add SYS_ADMIN)"}
	}
	return Finding{"fuse", OK, "this host can mount", ""}
}

// helper sees whether ordinary users can mount.
func helper() Finding {
	const install = "apt-get install fuse3, or mount as root"
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return Finding{"fuse", Fail, "fusermount3 is missing, by which ordinary users mount", install}
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode()&os.ModeSetuid == 0 {
		return Finding{"fuse", Fail, path + " is not setuid root: ordinary users cannot mount", "chmod u+s " + path + ", or mount as root"}
	}
	return Finding{"fuse", OK, "this user can mount, by " + path, ""}
}

// mounts looks for mounts of NFS that hang or are dead.
func (c *Client) mounts(ctx context.Context) (list []Finding) {
	all, err := mountinfo.All()
	if err != nil {
		return []Finding{{"mounts", Warn, err.Error(), "see /proc/self/mountinfo"}}
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	count := 0
	for _, m := range all {
		ours := m.Kind == "fuse.nfsrdma"
		if !ours && m.Kind != "nfs" && m.Kind != "nfs4" {
			continue
		}
		count++
		running.Go(func() {
			if f, ok := c.mount(ctx, m, ours); !ok {
				mu.Lock()
				defer mu.Unlock()
				list = append(list, f)
			}
		})
	}
	running.Wait()
	if len(list) == 0 {
		list = append(list, Finding{"mounts", OK, fmt.Sprintf("none of %d mounts of NFS hangs", count), ""})
	}
	return list
}

// mount tries one mount.
func (c *Client) mount(ctx context.Context, m mountinfo.Mount, ours bool) (f Finding, ok bool) {
	refused, err := ask(ctx, m.Point, c.patience)
	umount := "umount -f " + m.Point
	if ours {
		umount = "mountrdma " + umount
	}
	switch {
	case errors.Is(err, errSilent):
		return Finding{
			"mounts", Fail, fmt.Sprintf("the mount of %s on %s does not answer", m.Source, m.Point),
			"see whether its server does, or give it up: " + umount,
		}, false
	case err != nil:
		return Finding{"mounts", Warn, fmt.Sprintf("mount %s cannot be tried: %v", m.Point, err), "install coreutils"}, false
	case refused == "", slices.Contains(closed, refused):
		return Finding{}, true
	case refused == "Transport endpoint is not connected":
		return Finding{"mounts", Fail, fmt.Sprintf("the process of the mount of %s on %s has died", m.Source, m.Point), "mountrdma umount " + m.Point}, false
	}
	return Finding{
		"mounts", Fail, fmt.Sprintf("the mount of %s on %s answers with an error (%s)", m.Source, m.Point, refused),
		"see whether its server still exports that; then " + umount + ", and mount again",
	}, false
}

// closed has the reasons of mounts that this user does not get to.
var closed = []string{"Permission denied", "Operation not permitted", "No such file or directory", "Not a directory"}
