package delegation

import "time"

// A contest is the history of a directory that was recalled. If clients change
// the directory alternately, each change recalls the other client's grant. That
// costs both clients more than calls for the names would. In that case the
// directory is granted to nobody for a pause, which doubles each time.
//
// Changes by one client alone do not count as a contest, however many. Clients
// that only read the directory decide themselves how soon to ask again.
type contest struct {
	recalled [contestRecalls - 1]time.Duration // latest recalls by alternate changes; after a contest, the end of the pause
	n        int                               // number of entries in recalled
	changer  uint64                            // latest changer: Conn.number, or 0
	pause    time.Duration                     // length of the latest pause
	until    time.Duration                     // end of the pause
}

// contend notes that conn, which may be nil, changes a directory that some
// client holds. recalled says whether the change recalled a grant.
func (g *Grantor) contend(directory string, conn *Conn, recalled bool, now time.Duration) {
	ct, there := g.contests[directory]
	changer := uint64(0)
	if conn != nil {
		changer = conn.number
	}
	turn := !there || changer != ct.changer
	if !turn || !there && !recalled {
		return
	}
	ct.changer = changer
	if recalled && now >= ct.until {
		ct.count(now, g.cfg.Lease)
	}
	if !there && len(g.contests) >= maxContests {
		g.settleContests(now)
	}
	g.contests[directory] = ct
}

// count adds a recall.
func (ct *contest) count(now, lease time.Duration) {
	for ct.n > 0 && now-ct.recalled[0] >= contestTime*lease {
		ct.n--
		copy(ct.recalled[:], ct.recalled[1:])
	}
	if ct.n == 0 {
		ct.pause = 0
	}
	if ct.n < len(ct.recalled) {
		ct.recalled[ct.n] = now
		ct.n++
		return
	}
	ct.pause = min(max(2*ct.pause, lease), maxContest*lease)
	ct.until = now + ct.pause
	for i := range ct.recalled { // a single recall soon after the pause begins the next pause
		ct.recalled[i] = ct.until
	}
}

// contested reports whether a directory must not be granted now.
func (g *Grantor) contested(directory string, now time.Duration) bool {
	return now < g.contests[directory].until
}

// settleContests makes room for another contest. Among some, it removes all that
// are over, then arbitrary ones as necessary. The caller holds mu, and clients can
// cause contests at any rate, so settleContests does not examine all.
func (g *Grantor) settleContests(now time.Duration) {
	examined := 0
	for directory, ct := range g.contests {
		if now-ct.recalled[max(0, ct.n-1)] >= contestTime*g.cfg.Lease {
			delete(g.contests, directory)
		}
		if examined++; examined == settleScan {
			break
		}
	}
	for directory := range g.contests {
		if len(g.contests) < maxContests {
			return
		}
		delete(g.contests, directory)
	}
}
