package delegation

import "time"

// A contest is what is remembered of a directory that was recalled. Where clients change it
// in turns, each of them has the other's names recalled, which costs both more than to ask
// for names does. So it is granted to nobody for a while then, and for longer each time.
//
// One client's changes, however many, that others only look at, are no such turns: how
// soon those ask again is for them to judge.
type contest struct {
	recalled [contestRecalls - 1]time.Duration // in turns; the last ones, or the end of until
	n        int                               // of those, how many there are
	changer  uint64                            // who changed it last: Conn.number, or 0
	pause    time.Duration                     // for how long nothing was granted
	until    time.Duration                     // nothing is granted before
}

// contend notes that conn, which may be nil, changes a directory that somebody holds, and
// whether it had anything recalled for that.
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

// count counts a recall.
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
	for i := range ct.recalled { // one more, soon after that, is one too many
		ct.recalled[i] = ct.until
	}
}

// contested tells whether a directory is granted to nobody for now.
func (g *Grantor) contested(directory string, now time.Duration) bool {
	return now < g.contests[directory].until
}

// settleContests makes room for one contest more: all that are over go, or else any.
func (g *Grantor) settleContests(now time.Duration) {
	for directory, ct := range g.contests {
		if now-ct.recalled[max(0, ct.n-1)] >= contestTime*g.cfg.Lease {
			delete(g.contests, directory)
		}
	}
	for directory := range g.contests {
		if len(g.contests) < maxContests {
			return
		}
		delete(g.contests, directory)
	}
}
