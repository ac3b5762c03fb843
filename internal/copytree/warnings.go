package copytree

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A warning is a kind of loss that a copy reports once.
type warning int

const (
	warnLinks warning = iota
	warnAttrs
	warnTimes

	numWarnings
)

// warnOnce reports what a copy cannot keep, once for each kind. It does not count
// as a failure.
func (c *Copier) warnOnce(kind warning, err error) {
	if c.ctx.Err() == nil && !c.warned[kind].Swap(true) {
		c.bar.withoutBar(func() { c.cfg.Report(err) })
	}
}

var (
	errAttrs = errors.New("extended attributes and access control lists are not copied (nor those of other files)")
	errTimes = errors.New("a time before 1970 or after 2106 becomes the nearest that NFS version 3 has (also of other files)")
)

// warnLostTimes warns if e has times that to cannot keep.
func (c *Copier) warnLostTimes(e *entry, to Tree) {
	if _, remote := to.(*remoteTree); !remote {
		return
	}
	for _, sec := range []int64{e.atime.Unix(), e.mtime.Unix()} {
		if sec < 0 || sec > math.MaxUint32 {
			c.warnOnce(warnTimes, to.Explain(e.path, errTimes))
		}
	}
}

// warnAttributes warns if an open file or directory has attributes that are not
// copied.
func (c *Copier) warnAttributes(from Tree, path string, f openFile) {
	local, ok := f.(*localFile)
	if !ok || !c.cfg.Preserve || c.warned[warnAttrs].Load() {
		return
	}
	p := make([]byte, maxAttrNames)
	n, err := unix.Flistxattr(int(local.Fd()), p)
	if err != nil {
		return
	}
	if slices.ContainsFunc(strings.Split(string(p[:n]), "\x00"), isUsersAttribute) {
		c.warnOnce(warnAttrs, from.Explain(path, errAttrs))
	}
}

// isUsersAttribute reports whether an extended attribute is not one that the host
// gives each file, as SELinux does.
func isUsersAttribute(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_") || name == "security.capability"
}

// warnDirectory warns if a directory has attributes that are not copied.
func (c *Copier) warnDirectory(ctx context.Context, from Tree) {
	if _, local := from.(*hostTree); !local || !c.cfg.Preserve {
		return
	}
	if f, err := from.openFile(ctx, entry{path: "."}); err == nil {
		c.warnAttributes(from, "", f)
		_ = f.closeFile()
	}
}
