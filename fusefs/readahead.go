package fusefs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// raiseReadAhead lets the kernel read further ahead than the 128 KiB to which
// it holds FUSE file systems, whatever these ask for: too little to keep even
// one READ of full size under way. Only root may; others read more slowly.
func (m *Mount) raiseReadAhead() {
	var st unix.Stat_t
	if err := unix.Stat(m.cfg.Point, &st); err != nil {
		return
	}
	path := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", readAhead>>10), 0); err != nil {
		m.cfg.Log.Debug("reading ahead stays short", "err", err)
	}
}
