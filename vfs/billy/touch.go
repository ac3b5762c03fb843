package billy

import (
	"time"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// touch takes note that an object was changed just now. Of two changes the
// second has the later time, whatever the clock's step is: clients go by it.
func (t *table) touch(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := timeOf(time.Now())
	if later(n.touched, now) == n.touched {
		now = n.touched
		now.Nsec++
		if now.Nsec == 1e9 {
			now = vfs.Time{Sec: now.Sec + 1}
		}
	}
	n.touched = now
}

func (t *table) touched(n *node) vfs.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return n.touched
}
