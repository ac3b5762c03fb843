package mountopt

import (
	"fmt"
	"strings"
)

// Parse parses one -o value. Later options override earlier ones. With sloppy,
// unknown options are ignored.
func (o *Options) Parse(list string, sloppy bool) error {
	table := o.allOptions()
	for word := range strings.SplitSeq(list, ",") {
		name, value, given := strings.Cut(word, "=")
		if name == "" || strings.HasPrefix(strings.ToLower(name), "x-") {
			continue // x-: for other programs (fstab(5))
		}
		row := findOption(table, name)
		switch {
		case row == nil && sloppy:
			continue
		case row == nil:
			return unknownOption(table, name)
		case given && row.value == "":
			return fmt.Errorf("option %s: it takes no value", word)
		case value == "" && row.value != "" && row.value != optionalValue:
			return fmt.Errorf("option %s: it needs a value: %s=%s", word, name, row.value)
		case row.set == nil:
			continue
		}
		if err := row.set(value); err != nil {
			return fmt.Errorf("option %s: %w", word, err)
		}
	}
	return nil
}

func findOption(table []option, name string) *option {
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	return nil
}

// unknownOption returns the error for a name that is not in the table. The
// error suggests the nearest name, if a similar one exists.
func unknownOption(table []option, name string) error {
	nearest, least := "", 1+min(2, len(name)/2)
	for _, row := range table {
		if d := editDistance(strings.ToLower(name), row.name); d < least {
			nearest, least = row.name, d
		}
	}
	if nearest == "" {
		return fmt.Errorf("unknown option %q: --help lists the options", name)
	}
	return fmt.Errorf("unknown option %q: did you mean %s?", name, nearest)
}

// editDistance returns how many bytes must be inserted, deleted, replaced or
// swapped with their neighbor to turn a into b.
func editDistance(a, b string) int {
	// last, row and next are rows in the table with the distances between a's and
	// b's prefixes.
	var last, row, next []int
	for j := range len(b) + 1 {
		row = append(row, j)
	}
	for i := 1; i <= len(a); i++ {
		next = []int{i}
		for j := 1; j <= len(b); j++ {
			replaced := row[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			d := min(replaced, row[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, last[j-2]+1)
			}
			next = append(next, d)
		}
		last, row = row, next
	}
	return row[len(b)]
}
