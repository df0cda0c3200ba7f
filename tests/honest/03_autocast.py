# %% answer: a stack of regions in a class, with match exercise="predict-dtypes"
from enum import Enum


class Policy(str, Enum):
    LOWER = "lower"
    FLOAT32 = "float32"
    WIDEST = "widest"


class Machine:
    def __init__(self, dtypes, policies):
        self.vars, self.policies, self.queue, self.out = dict(dtypes), policies, [], {}

    def run(self, step):
        match step:
            case {"do": "enter", "lower": lower}:
                self.queue.append(lower)
            case {"do": "leave"}:
                self.queue.pop()
            case {"do": name, "of": of, "to": to}:
                self.vars[to] = self.out[to] = self._result(name, [self.vars[n] for n in of])
            case _:
                raise ValueError(step)

    def _result(self, name, given):
        policy = Policy(self.policies[name])
        promoted = given[0] if len(set(given)) == 1 else "float32"
        if "float64" in given:
            promoted = "float64"
        lower = self.queue[-1] if self.queue else None
        if lower is None or set(given) == {"float64"} or policy is Policy.WIDEST:
            return promoted
        return lower if policy is Policy.LOWER else "float32"


def predict_dtypes(program, dtypes, policies):
    machine = Machine(dtypes, policies)
    for step in program:
        machine.run(step)
    return machine.out


# %% answer: a device and a scaler that nobody needs exercise="mixed-step"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
scaler = torch.amp.GradScaler(device.type, enabled=False)


def train_step(model, optimizer, loss_function, inputs, targets):
    model_dtype = next(model.parameters()).dtype
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type=device.type, dtype=torch.bfloat16):
        output = model(inputs)
        loss = loss_function(output, targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert model_dtype == torch.float32
    return float(loss.detach())
