package iwarp

import (
	"os"
	"time"
)

// A debt is what the peer owes: the rest of an FPDU, or the next FPDU of a message.
// It may be waited for stallTimeout in all, over all FPDUs of a message, and for each
// FPDU as long more as that takes at slowestPeer: a peer that goes on a little each
// time must not keep buffers for ever. While the reader is busy, the peer takes no time.
type debt struct {
	owed   bool          // octets are
	fpdu   int           // octets of the FPDU, as far as is known
	waited time.Duration // for them
}

// left returns for how long one may wait for the peer now, 0 if for ever, or that it
// has taken too long.
func (d *debt) left() (time.Duration, error) {
	if !d.owed {
		return 0, nil
	}
	if left := stallTimeout + d.more() - d.waited; left > 0 {
		return left, nil
	}
	return 0, os.ErrDeadlineExceeded
}

// more returns for how long more one may wait for the FPDU.
func (d *debt) more() time.Duration { return time.Duration(d.fpdu) * time.Second / slowestPeer }

// next begins with the FPDU behind one that has come. Within a message the wait goes
// on; an FPDU that was fast saves nothing up for those that follow.
func (d *debt) next(within bool) {
	waited := time.Duration(0)
	if within {
		waited = max(d.waited-d.more(), 0)
	}
	*d = debt{waited: waited}
}

// begin and end stand around a wait.
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
