//go:build linux

package posix

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// An accessVerdict is the kernel's cached decision on a caller's rights to an object. A check takes
// at least six identity switches, and a client repeats the same one: it needs the right to search a
// directory for each name in it.
type accessVerdict struct {
	credKey credKey
	seen    perms
	asked   uint8 // a bit for each mode, 1<<mode: rights from group entries do not add up
	yes     uint8 // the modes in asked that were granted
}

// isValid reports whether the kernel's decision is still valid. Some changes show in no attribute,
// for example a file system that becomes read-only, so a decision is trusted only for recheckTime.
func (v *accessVerdict) isValid(st *unix.Statx_t) bool {
	return v.seen.areValid(st) && time.Since(v.seen.at) < recheckTime
}

// mayAccess is like checkPermission, for an o whose attributes are st. It calls the kernel only
// without a valid cached decision.
func (f *FS) mayAccess(o *object, c *vfs.Cred, mode uint32, st *unix.Statx_t) error {
	w := f.credKeyOf(c)
	bit := uint8(1) << mode
	o.mu.Lock()
	if v := o.verdictOf(&w); v != nil && v.asked&bit != 0 && v.isValid(st) {
		yes := v.yes&bit != 0
		o.mu.Unlock()
		if !yes {
			return unix.EACCES
		}
		return nil
	}
	o.mu.Unlock()
	seen := *permsOf(st) // before the question, to miss no later change
	err := f.checkPermission(o, c, mode)
	if err == nil || err == unix.EACCES {
		o.mu.Lock()
		o.addVerdict(&w, st, seen, bit, err == nil)
		o.mu.Unlock()
	}
	return err
}

// verdictOf returns w's cached rights, or nil. o.mu is held.
func (o *object) verdictOf(w *credKey) *accessVerdict {
	for i := range o.verdicts {
		if o.verdicts[i].credKey.equals(w) {
			return &o.verdicts[i]
		}
	}
	return nil
}

// addVerdict caches the kernel's decision for attributes st. o.mu is held.
func (o *object) addVerdict(w *credKey, st *unix.Statx_t, seen perms, bit uint8, yes bool) {
	v := o.verdictOf(w)
	if v == nil {
		if len(o.verdicts) < maxVerdicts {
			o.verdicts = append(o.verdicts, accessVerdict{})
		}
		v = &o.verdicts[o.nextVerdict]
		o.nextVerdict = (o.nextVerdict + 1) % maxVerdicts
		*v = accessVerdict{credKey: credKey{w.uid, w.gid, slices.Clone(w.groups)}}
	}
	if v.asked == 0 || !v.isValid(st) {
		v.seen, v.asked, v.yes = seen, 0, 0
	}
	v.asked |= bit
	v.yes &^= bit
	if yes {
		v.yes |= bit
	}
}
