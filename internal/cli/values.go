package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Size is a flag's number of bytes, such as 4096, 64KiB or 1MiB. It
// implements pflag.Value.
type Size int

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// Set parses the word after the flag.
func (s *Size) Set(word string) error {
	n, err := ParseSize(word, math.MaxInt32)
	if err == nil {
		*s = Size(n)
	}
	return err
}

// ParseSize parses a number of bytes, such as 4096, 64KiB or 1GiB, not above
// most.
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

// String writes the size in its largest whole unit.
func (s *Size) String() string {
	n := int64(*s)
	for _, u := range slices.Backward(units[:3]) {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// Type names the value in the help.
func (s *Size) Type() string { return "SIZE" }

// A Choice is a flag with a fixed set of words. It implements pflag.Value.
type Choice struct {
	Word  string
	words []string
}

// NewChoice returns a Choice between words; word is the default.
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

// Type names the value in the help.
func (c *Choice) Type() string { return strings.Join(c.words, "|") }

// Within checks a flag's number. The packages that use the number also check
// it, but without the flag's name, and some only at work.
func Within[T ~int64](flag string, n, least, most T) error {
	if n < least || n > most {
		return fmt.Errorf("%s %v is not between %v and %v", flag, n, least, most)
	}
	return nil
}
