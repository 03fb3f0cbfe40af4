quern --help
for command in compile inspect tune eval run dump tensor; do
  echo "== $command"
  quern "$command" --help
done
