package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Size is a number of bytes in a flag, such as 4096, 64KiB or 1MiB. It implements
// pflag.Value.
type Size int

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// Set parses the flag's argument.
func (s *Size) Set(word string) error {
	n, err := ParseSize(word, math.MaxInt32)
	if err == nil {
		*s = Size(n)
	}
	return err
}

// ParseSize parses a number of bytes up to most, such as 4096, 64KiB or 1GiB.
func ParseSize(word string, most int64) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(word, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > most/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("not a size: write bytes, or a number with KiB, MiB or GiB (below %d GiB)", most>>30+1)
}

// String returns the size in the largest unit that divides it.
func (s *Size) String() string {
	n := int64(*s)
	for _, u := range slices.Backward(units[:3]) {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// Type returns the name of the value in the help.
func (s *Size) Type() string { return "SIZE" }

// A Choice is a flag with a fixed set of words. It implements pflag.Value.
type Choice struct {
	Word  string
	words []string
}

// NewChoice returns a Choice of words whose default is word.
func NewChoice(word string, words ...string) Choice { return Choice{word, words} }

// Set sets the chosen word.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("not one of %s", strings.Join(c.words, ", "))
	}
	c.Word = word
	return nil
}

// String returns the chosen word.
func (c *Choice) String() string { return c.Word }

// Type returns the name of the value in the help.
func (c *Choice) Type() string { return strings.Join(c.words, "|") }

// CheckRange checks a flag's number. The packages that use the number check it too, but
// their errors do not name the flag, and some occur only while serving.
func CheckRange[T ~int64](flag string, n, least, most T) error {
	if n < least || n > most {
		return fmt.Errorf("%s %v is not between %v and %v", flag, n, least, most)
	}
	return nil
}
