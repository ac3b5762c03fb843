package manual

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands returns a section for each command below root, with its text, flags
// and examples.
func Commands(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		if c.Runnable() {
			b.WriteString(".SS " + escapeRoff(c.UseLine()) + "\n")
			b.WriteString(commandSection(c))
		}
		b.WriteString(Commands(c))
	}
	return b.String()
}

func commandSection(c *cobra.Command) string {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	out := Text(text) + Flags(c.LocalNonPersistentFlags())
	if c.Example != "" {
		var b strings.Builder
		writeExample(&b, c.Example)
		out += b.String()
	}
	return out
}

// A flag in a help text: its name and, after several spaces, its text.
var usagePattern = regexp.MustCompile(`^ *(.*?)   +(.*)$`)

// Flags returns a list of flags.
func Flags(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(f)
		m := usagePattern.FindStringSubmatch(strings.Join(strings.Split(strings.TrimRight(one.FlagUsages(), "\n"), "\n"), " "))
		b.WriteString(".TP\n" + flagName(m[1]) + "\n")
		writeParagraph(&b, m[2])
	})
	return b.String()
}

// flagName returns a flag and its value: --clients NET,...
func flagName(words string) string {
	parts := strings.Split(words, ", ")
	for i, part := range parts {
		flag, value, valued := strings.Cut(part, " ")
		parts[i] = boldWord(flag)
		if valued {
			parts[i] += ` \fI` + escapeRoff(value) + `\fR`
		}
	}
	return strings.Join(parts, ", ")
}
