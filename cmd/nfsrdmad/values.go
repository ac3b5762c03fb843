package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// size is a flag's number of octets, such as 4096, 64KiB or 1MiB.
type size int

var units = []struct {
	suffix string
	octets int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// Set parses the word behind the flag.
func (s *size) Set(word string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(word, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt32/u.octets {
			break
		}
		*s = size(n * u.octets)
		return nil
	}
	return fmt.Errorf("not a size: write octets, or a number with KiB, MiB or GiB (below 2 GiB)")
}

// String writes the size in its largest whole unit.
func (s *size) String() string {
	n := int64(*s)
	for _, u := range slices.Backward(units[:3]) {
		if n >= u.octets && n%u.octets == 0 {
			return strconv.FormatInt(n/u.octets, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// Type names the value in the help.
func (s *size) Type() string { return "SIZE" }

// choice is a flag that takes one of a few words.
type choice struct {
	word  string
	words []string
}

// Set takes one of the words.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("not one of %s", strings.Join(c.words, ", "))
	}
	c.word = word
	return nil
}

func (c *choice) String() string { return c.word }

// Type names the value in the help.
func (c *choice) Type() string { return strings.Join(c.words, "|") }
