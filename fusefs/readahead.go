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
	if err := os.WriteFile(bdi(st.Dev), fmt.Appendf(nil, "%d\n", readAhead>>10), 0); err != nil {
		m.cfg.Log.Debug("reading ahead stays short", "err", err)
	}
}

// bdi is the file that says how far the kernel reads ahead on a device.
func bdi(dev uint64) string {
	return fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev))
}
