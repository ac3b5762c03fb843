package delegation

import "time"

// A dirContest is the recall history of a directory. If clients change a
// directory alternately, each change recalls the other client's grant, which
// costs both clients more than calls for the names. The directory is then not
// granted to any client for a pause, which doubles each time.
//
// Changes by a single client, however many, are not a contest. Clients that
// only read the directory decide themselves how soon to try again.
type dirContest struct {
	recentRecalls [contestRecalls - 1]time.Duration // times of the latest recalls by alternate changes; after a contest, pauseEnd
	recallCount   int                               // number of entries in recentRecalls
	lastChanger   uint64                            // latest changer: Conn.number, or 0
	pause         time.Duration                     // length of the latest pause
	pauseEnd      time.Duration                     // end of the pause
}

// recordDirChange records that conn, which may be nil, changes a directory that
// a client holds. recalled says whether the change recalled that grant. Further
// grants that the same change recalls do not count.
func (g *Grantor) recordDirChange(directory string, conn *Conn, recalled bool, now time.Duration) {
	ct, exists := g.contests[directory]
	changer := uint64(0)
	if conn != nil {
		changer = conn.number
	}
	alternates := !exists || changer != ct.lastChanger
	if !alternates || !exists && !recalled {
		return
	}
	ct.lastChanger = changer
	if recalled && now >= ct.pauseEnd {
		ct.countRecall(now, g.cfg.Lease)
	}
	if !exists && len(g.contests) >= maxContests {
		g.removeOldContests(now)
	}
	g.contests[directory] = ct
}

// countRecall adds a recall.
func (ct *dirContest) countRecall(now, lease time.Duration) {
	for ct.recallCount > 0 && now-ct.recentRecalls[0] >= contestTime*lease {
		ct.recallCount--
		copy(ct.recentRecalls[:], ct.recentRecalls[1:])
	}
	if ct.recallCount == 0 {
		ct.pause = 0
	}
	if ct.recallCount < len(ct.recentRecalls) {
		ct.recentRecalls[ct.recallCount] = now
		ct.recallCount++
		return
	}
	ct.pause = min(max(2*ct.pause, lease), maxContestPause*lease)
	ct.pauseEnd = now + ct.pause
	for i := range ct.recentRecalls { // a single recall soon after the pause starts the next pause
		ct.recentRecalls[i] = ct.pauseEnd
	}
}

// isContested reports whether a directory must not be granted now.
func (g *Grantor) isContested(directory string, now time.Duration) bool {
	return now < g.contests[directory].pauseEnd
}

// removeOldContests makes space for another contest. It examines some and
// removes those that are over, then removes arbitrary ones if necessary. It
// does not examine all, because the caller holds mu, and clients can cause
// contests at any rate.
func (g *Grantor) removeOldContests(now time.Duration) {
	examined := 0
	for directory, ct := range g.contests {
		if now-ct.recentRecalls[max(0, ct.recallCount-1)] >= contestTime*g.cfg.Lease {
			delete(g.contests, directory)
		}
		if examined++; examined == contestScan {
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
