package report

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// maxSeries bounds the exports, and the clients, whose samples a History keeps: 11 KiB each.
const maxSeries = 16

// loadHalfLife is the time in which a call's share in the recent load halves, and loadMargin how many
// times the load of another an export or client must have to take its place: two with about the same
// load must not displace each other at each sample.
const (
	loadHalfLife = 10 * time.Minute
	loadMargin   = 1.5
)

// A series has the samples of an export or a client, in the places of the History's samples.
type series struct {
	samples [historySize]usageSample // a ring
	first   int                      // the History's number of samples when it began
}

// A seriesSet keeps a series for each export by path, or for each client by address. If there are
// more than maxSeries, it keeps those of the busiest.
type seriesSet struct {
	kept map[string]*series
	load map[string]float64 // recent calls of all, kept or not
}

// addSamples adds the sample with a number to each series, and begins and ends series. Those that are
// no longer counted end.
func (s *seriesSet) addSamples(number int, was, now map[string]usageTotals, interval time.Duration) {
	s.updateLoad(was, now, interval)
	for name := range s.kept {
		if _, ok := s.load[name]; !ok {
			delete(s.kept, name)
		}
	}
	s.replaceIdle(number)
	for name, k := range s.kept {
		k.samples[number%historySize] = newUsageSample(was[name], now[name], interval)
	}
}

// updateLoad computes the recent load of all that are in both totals: an interval whose begin is
// unknown has no rates.
func (s *seriesSet) updateLoad(was, now map[string]usageTotals, interval time.Duration) {
	load := make(map[string]float64, len(now))
	for name, t := range now {
		if before, ok := was[name]; ok {
			load[name] = s.load[name]*math.Exp2(-float64(interval)/float64(loadHalfLife)) + ratePerSecond(before.calls, t.calls, interval)
		}
	}
	s.load = load
}

// replaceIdle begins the series of the busiest that have none, while there are places, or others with
// so much less load that they give way.
func (s *seriesSet) replaceIdle(number int) {
	if s.kept == nil {
		s.kept = make(map[string]*series)
	}
	least := -1.0
	if len(s.kept) == maxSeries { // few of 10,000 exports have more, so that sorting costs little
		least = loadMargin * s.load[s.findIdlest()]
	}
	var candidates []string
	for name, load := range s.load {
		if load > least && s.kept[name] == nil {
			candidates = append(candidates, name)
		}
	}
	slices.SortFunc(candidates, func(a, b string) int { return cmp.Or(cmp.Compare(s.load[b], s.load[a]), cmp.Compare(a, b)) })
	for _, name := range candidates {
		if len(s.kept) == maxSeries {
			idlest := s.findIdlest()
			if s.load[name] <= loadMargin*s.load[idlest] {
				return
			}
			delete(s.kept, idlest)
		}
		s.kept[name] = &series{first: number}
	}
}

// findIdlest returns the name of the series with the least load.
func (s *seriesSet) findIdlest() (idlest string) {
	first := true
	for name := range s.kept {
		if first || cmp.Or(cmp.Compare(s.load[name], s.load[idlest]), cmp.Compare(idlest, name)) < 0 {
			idlest, first = name, false
		}
	}
	return idlest
}

// unknownUsage is the sample of an interval before a series began.
var unknownUsage = usageSample{-1, -1, -1, -1}

// listSeries returns the samples of a series, one for each sample of listSamples.
func (h *History) listSeries(k *series, now time.Duration) []historySample {
	all := h.listSamples(now)
	for i := range all {
		all[i] = historySample{end: all[i].end, usageSample: unknownUsage}
		if number := h.taken - len(all) + i; number >= k.first {
			all[i].usageSample = k.samples[number%historySize]
		}
	}
	return all
}
