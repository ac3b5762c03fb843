package main

import "slices"

// A series is what the rounds measured.
type series []float64

// spread returns the least, the middle and the greatest of a series.
func (s series) spread() (low, median, high float64) {
	if len(s) == 0 {
		return 0, 0, 0
	}
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]
}

// median returns the middle of a series.
func (s series) median() float64 {
	_, m, _ := s.spread()
	return m
}

// ratios returns a series divided by another one, round by round.
func (s series) ratios(by series) series {
	var r series
	for i := range s {
		if i < len(by) && by[i] > 0 {
			r = append(r, s[i]/by[i])
		}
	}
	return r
}
