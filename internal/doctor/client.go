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

// A Client is a host that mounts exports. NewClient sets the fields, which tests replace.
type Client struct {
	device       string // the FUSE device
	status       string // file with this process's capabilities
	uid          int
	probeTimeout time.Duration // for each mount
	limit        func() (files uint64, err error)
	clock        func() (state int, err error)
}

// NewClient returns the Client for this host.
func NewClient() *Client {
	return &Client{
		device: "/dev/fuse", status: "/proc/self/status", uid: os.Geteuid(), probeTimeout: defaultProbeTimeout,
		limit: OpenFiles, clock: clockState,
	}
}

// Examine runs all checks that need no server, as the user of this process.
func (c *Client) Examine(ctx context.Context) []Finding {
	list := []Finding{c.checkFUSE(), checkFileLimit(c.limit, clientFiles, "each connection takes one"), checkClock(c.clock)}
	return append(list, c.checkMounts(ctx)...)
}

// clientFiles is the number of open files that suffices for the connections of mounts.
const clientFiles = 256

// checkFUSE checks whether this user can mount.
func (c *Client) checkFUSE() Finding {
	f, err := os.OpenFile(c.device, os.O_RDWR, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return Finding{"fuse", Fail, c.device + " is missing: mounts are impossible", "modprobe fuse, or give the container the device (--device /dev/fuse)"}
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return Finding{"fuse", Fail, "the kernel does not support FUSE: mounts are impossible", "modprobe fuse"}
	case err != nil:
		return Finding{"fuse", Fail, fmt.Sprintf("mounts are impossible: %v", err), "chmod 0666 " + c.device + ", or give the container the device (--device /dev/fuse)"}
	}
	f.Close()
	if c.uid != 0 {
		return checkFusermount()
	}
	if set, err := effectiveCapabilities(c.status); err == nil && set&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return Finding{"fuse", Fail, "root cannot mount without CAP_SYS_ADMIN", "give the container the capability (--cap-add SYS_ADMIN)"}
	}
	return Finding{"fuse", OK, "this host can mount", ""}
}

// checkFusermount checks whether ordinary users can mount.
func checkFusermount() Finding {
	const install = "apt-get install fuse3, or mount as root"
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return Finding{"fuse", Fail, "fusermount3 is missing, which ordinary users need to mount", install}
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode()&os.ModeSetuid == 0 {
		return Finding{"fuse", Fail, path + " is not setuid root: ordinary users cannot mount", "chmod u+s " + path + ", or mount as root"}
	}
	return Finding{"fuse", OK, "this user can mount with " + path, ""}
}

// checkMounts looks for NFS mounts that hang or whose process has died.
func (c *Client) checkMounts(ctx context.Context) (list []Finding) {
	all, err := mountinfo.All()
	if err != nil {
		return []Finding{{"mounts", Warn, err.Error(), "see /proc/self/mountinfo"}}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	count := 0
	for _, m := range all {
		ours := m.Kind == "fuse.nfsrdma"
		if !ours && m.Kind != "nfs" && m.Kind != "nfs4" {
			continue
		}
		count++
		wg.Go(func() {
			if f, ok := c.checkMount(ctx, m, ours); !ok {
				mu.Lock()
				defer mu.Unlock()
				list = append(list, f)
			}
		})
	}
	wg.Wait()
	if len(list) == 0 {
		list = append(list, Finding{"mounts", OK, fmt.Sprintf("none of %d NFS mounts hangs", count), ""})
	}
	return list
}

// checkMount checks one mount. ours means that the mount is mountrdma's.
func (c *Client) checkMount(ctx context.Context, m mountinfo.Mount, ours bool) (f Finding, ok bool) {
	refused, err := probeFileSystem(ctx, m.Point, c.probeTimeout)
	umount := "umount -f " + m.Point
	if ours {
		umount = "mountrdma " + umount
	}
	switch {
	case errors.Is(err, errNoAnswer):
		return Finding{
			"mounts", Fail, fmt.Sprintf("the mount of %s on %s does not respond", m.Source, m.Point),
			"check its server, or abandon the mount: " + umount,
		}, false
	case err != nil:
		return Finding{"mounts", Warn, fmt.Sprintf("the mount %s cannot be checked: %v", m.Point, err), "install coreutils"}, false
	case refused == "", slices.Contains(inaccessibleReasons, refused):
		return Finding{}, true
	case refused == "Transport endpoint is not connected":
		return Finding{"mounts", Fail, fmt.Sprintf("the process of the mount of %s on %s has died", m.Source, m.Point), "mountrdma umount " + m.Point}, false
	}
	return Finding{
		"mounts", Fail, fmt.Sprintf("the mount of %s on %s returns an error (%s)", m.Source, m.Point, refused),
		"check whether its server still exports that; then " + umount + ", and mount again",
	}, false
}

// inaccessibleReasons are the errors of mounts that this user cannot access.
var inaccessibleReasons = []string{"Permission denied", "Operation not permitted", "No such file or directory", "Not a directory"}
