package exports

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManual checks that the manual page has every option, says which are
// refused, and that its examples are files without an error.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../../contrib/man/nfsrdma-exports.5")
	require.NoError(t, err)
	_, options, found := strings.Cut(string(page), ".SH OPTIONS\n")
	require.True(t, found)
	options, _, _ = strings.Cut(options, ".SH DIFFERENCES")
	options, no, found := strings.Cut(options, "Rejected, with a remedy:")
	require.True(t, found)

	// Names in bold.
	named := func(text string) (names []string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, ".B") {
				names = append(names, regexp.MustCompile(`\b[a-z_]+\b`).FindAllString(line, -1)...)
			}
		}
		return names
	}
	served := []string{"sec"}
	for _, names := range [][]string{
		slices.Collect(maps.Keys(flagOptions)), slices.Collect(maps.Keys(valueOptions)), slices.Collect(maps.Keys(rightFlags)), slices.Collect(maps.Keys(rightIDs)),
	} {
		served = append(served, names...)
	}
	assert.Subset(t, named(options), served)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(unsupportedOptions)), named(no))

	for _, m := range regexp.MustCompile(`(?s)\.EX\n(.*?)\.EE`).FindAllStringSubmatch(string(page), -1) {
		text := strings.NewReplacer(`\e`, `\`, `\-`, `-`).Replace(m[1])
		_, err := Parse("example", []byte(text))
		assert.NoError(t, err, text)
	}
}
