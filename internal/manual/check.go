package manual

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Check returns an error if a part of the page differs from parts, or is in only
// one of the two. With update it writes the parts instead.
func Check(page string, parts map[string]string, update bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	rest, built := string(text), ""
	left := maps.Clone(parts)
	for {
		head, tail, found := strings.Cut(rest, beginMarker)
		built += head
		if !found {
			break
		}
		name, tail, _ := strings.Cut(tail, "\n")
		_, after, found := strings.Cut(tail, endMarker+name+"\n")
		if !found {
			return fmt.Errorf("%s: the line %q is missing", page, endMarker+name)
		}
		want, ok := left[name]
		if !ok {
			return fmt.Errorf("%s: no help has a part %q, or the page has it twice", page, name)
		}
		delete(left, name)
		built += beginMarker + name + "\n" + want + endMarker + name + "\n"
		rest = after
	}
	switch {
	case len(left) > 0:
		return fmt.Errorf("%s: the line %q is missing", page, beginMarker+slices.Sorted(maps.Keys(left))[0])
	case built == string(text):
		return nil
	case !update:
		return fmt.Errorf("%s differs from the help: go test ./cmd/... -run TestManual -update", page)
	}
	return os.WriteFile(page, []byte(built), 0o644)
}

const (
	beginMarker = `.\" from the help: `
	endMarker   = `.\" end of `
)
