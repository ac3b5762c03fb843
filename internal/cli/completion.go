package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NewCompletion returns the command that prints a program's completion script for a
// shell. The script runs the program itself to get the candidates.
func NewCompletion(program string) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a script that completes the command line in a shell",
		Example:   "  . <(" + program + " completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return writeBashCompletion(root, out)
			case "zsh":
				return root.GenZshCompletion(out)
			default:
				return root.GenFishCompletion(out, true)
			}
		},
	}
}

// writeBashCompletion writes cobra's script for bash and removes the backslashes that its
// printf %q puts before commas. Commas need quoting only within braces, and with quoted
// commas the script would complete a list of options wrongly after its second "=",
// because the typed prefix does not match the candidates.
func writeBashCompletion(root *cobra.Command, out io.Writer) error {
	var script strings.Builder
	if err := root.GenBashCompletionV2(&script, true); err != nil {
		return err
	}
	const unquote = `
        cur=${cur//\\,/,}
        COMPREPLY=("${COMPREPLY[@]//\\,/,}")`
	quoted := "        __" + root.Name() + "_handle_completion_types"
	_, err := io.WriteString(out, strings.Replace(script.String(), quoted, quoted+unquote, 1))
	return err
}

// completeChoices registers the words of each Choice flag for completion.
func completeChoices(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		if c, ok := f.Value.(*Choice); ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	cmd.Flags().VisitAll(complete)
	cmd.PersistentFlags().VisitAll(complete)
	for _, c := range cmd.Commands() {
		completeChoices(c)
	}
}
