"""What a run is to do: the operations of its handler, as its input."""

WORKFLOWS = ('chaos.retained', 'chaos.active', 'chaos.frail')


def make_program(rng, depth=0):
    """1 to 5 operations, each with a step of its own; see Client.do_…"""
    program = []
    for i in range(1, rng.choice((2, 3, 4, 6))):
        program += make_operations(rng, i, depth)
    return program


def make_operations(rng, i, depth):
    dice = rng.random()
    if dice < 0.45:
        return [['step', f's{i}']]
    if dice < 0.6:
        return [['sleep', f'z{i}', rng.choice((0.05, 0.3, 1))]]
    if dice < 0.7:
        return [['pause', f'p{i}', rng.choice((0.5, 2))]]
    if dice < 0.85:
        return [['signal', f'g{i}', rng.choice('ab'), rng.choice((0.3, 3, 3, None))]]
    if depth > 1:
        return [['step', f's{i}']]
    if dice < 0.95:
        start = ['child', f'c{i}', rng.choice(WORKFLOWS), make_program(rng, depth + 1),
                 rng.choice(('cancel', 'cancel', 'abandon'))]
        return [start] + ([['await_child', f'c{i}']] if rng.random() < 0.8 else [])
    programs = [make_program(rng, depth + 1) for _ in range(rng.choice((1, 2, 4)))]
    return [['children', f'm{i}', rng.choice(WORKFLOWS), programs],
            ['await_children', f'm{i}', rng.choice(('all', 'any'))]]
