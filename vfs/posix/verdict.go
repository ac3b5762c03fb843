//go:build linux

package posix

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A verdict is the kernel's cached answer about a caller's rights to an object.
// Asking the kernel takes at least six changes of identity, and a client
// repeats the same question: it needs the right to search a directory for each
// name in it.
type verdict struct {
	credKey credKey
	seen    perms
	asked   uint8 // a bit for each mode, 1<<mode: rights from group entries do not add up
	yes     uint8 // the modes in asked that were granted
}

// holds reports whether the kernel's answer is still valid. Some changes show
// in no attribute, for example a file system that becomes read-only, so an
// answer is trusted only for recheckTime.
func (v *verdict) holds(st *unix.Statx_t) bool {
	return v.seen.hold(st) && time.Since(v.seen.at) < recheckTime
}

// may is like permitted, for an o whose attributes are st. It asks the kernel
// only without a valid cached answer.
func (f *FS) may(o *object, c *vfs.Cred, mode uint32, st *unix.Statx_t) error {
	w := f.whoIs(c)
	bit := uint8(1) << mode
	o.mu.Lock()
	if v := o.verdict(&w); v != nil && v.asked&bit != 0 && v.holds(st) {
		yes := v.yes&bit != 0
		o.mu.Unlock()
		if !yes {
			return unix.EACCES
		}
		return nil
	}
	o.mu.Unlock()
	seen := *permsOf(st) // before the question, to miss no later change
	err := f.permitted(o, c, mode)
	if err == nil || err == unix.EACCES {
		o.mu.Lock()
		o.learn(&w, st, seen, bit, err == nil)
		o.mu.Unlock()
	}
	return err
}

// verdict returns the cached rights of w, or nil. o.mu is held.
func (o *object) verdict(w *credKey) *verdict {
	for i := range o.verdicts {
		if o.verdicts[i].credKey.equal(w) {
			return &o.verdicts[i]
		}
	}
	return nil
}

// learn caches the kernel's answer for attributes st. o.mu is held.
func (o *object) learn(w *credKey, st *unix.Statx_t, seen perms, bit uint8, yes bool) {
	v := o.verdict(w)
	if v == nil {
		if len(o.verdicts) < maxVerdicts {
			o.verdicts = append(o.verdicts, verdict{})
		}
		v = &o.verdicts[o.nextVerdict]
		o.nextVerdict = (o.nextVerdict + 1) % maxVerdicts
		*v = verdict{credKey: credKey{w.uid, w.gid, slices.Clone(w.groups)}}
	}
	if v.asked == 0 || !v.holds(st) {
		v.seen, v.asked, v.yes = seen, 0, 0
	}
	v.asked |= bit
	v.yes &^= bit
	if yes {
		v.yes |= bit
	}
}
