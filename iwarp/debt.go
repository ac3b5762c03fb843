package iwarp

import (
	"os"
	"time"
)

// A debt is the data that the peer owes: the rest of an FPDU, or the next FPDU
// of a message. The reader waits at most stallTimeout in total over all FPDUs
// of a message, and for each FPDU additionally the time that the FPDU takes at
// slowestPeer: a peer that sends a little each time must not keep buffers for
// ever. Only waiting counts; the time that the reader is busy does not.
type debt struct {
	owed   bool          // the peer owes bytes
	fpdu   int           // bytes of the FPDU, as far as known
	waited time.Duration // total wait so far
}

// left returns how long the reader may still wait for the peer; 0 means for
// ever. It returns an error if the peer has taken too long.
func (d *debt) left() (time.Duration, error) {
	if !d.owed {
		return 0, nil
	}
	if left := stallTimeout + d.more() - d.waited; left > 0 {
		return left, nil
	}
	return 0, os.ErrDeadlineExceeded
}

// more returns the additional wait that the FPDU allows.
func (d *debt) more() time.Duration { return time.Duration(d.fpdu) * time.Second / slowestPeer }

// next begins with the FPDU behind a complete one. Within a message the wait
// continues; a fast FPDU saves no time for the following FPDUs.
func (d *debt) next(within bool) {
	waited := time.Duration(0)
	if within {
		waited = max(d.waited-d.more(), 0)
	}
	*d = debt{waited: waited}
}

// begin and end enclose a wait.
func (d *debt) begin() (start time.Time) {
	if d.owed {
		start = time.Now()
	}
	return start
}

func (d *debt) end(start time.Time) {
	if d.owed {
		d.waited += time.Since(start)
	}
}
