package racetest

import (
	"os"
	"strconv"
)

// Schedules returns the number of random schedules that the test of a server's model runs:
// STATE_SCHEDULES, or n if that is not set. make soak sets it.
func Schedules(n int) int {
	if v, err := strconv.Atoi(os.Getenv("STATE_SCHEDULES")); err == nil {
		return v
	}
	return n
}
